package sim

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// story remembers what has lately happened, to each service and to what they have in common.
type story struct {
	out   io.Writer // gets it all too, if not nil
	lines map[string][]told
	count int
}

type told struct {
	number int
	at     time.Time
	text   string
}

func newStory(cfg Config) *story {
	s := &story{lines: map[string][]told{}}
	if cfg.Verbose {
		s.out = cfg.Out
	}
	return s
}

const keptLines = 200

// tell notes what happened to a service or (empty) to what is not of one.
func (s *story) tell(service, text string) {
	s.count++
	line := told{s.count, time.Now(), text}
	if s.out != nil {
		fmt.Fprintln(s.out, line)
	}
	s.lines[service] = append(s.lines[service], line)
	if n := len(s.lines[service]); n > 2*keptLines {
		s.lines[service] = slices.Clone(s.lines[service][n-keptLines:])
	}
}

// about returns what concerns a service.
func (s *story) about(service string) string {
	all := slices.Clone(s.lines[""])
	if service != "" {
		all = append(all, s.lines[service]...)
	}
	slices.SortFunc(all, func(a, b told) int { return a.number - b.number })
	var b strings.Builder
	for _, line := range all[max(0, len(all)-keptLines):] {
		fmt.Fprintln(&b, line)
	}
	return b.String()
}

func (t told) String() string {
	return fmt.Sprintf("%s step %d: %s", t.at.Format("15:04:05.000"), t.number, t.text)
}

// Failure says that something was not as it must be.
type Failure struct {
	Seed    uint64
	Round   int
	Service string // that a client asked for; empty: it is about none
	Err     error
	History string // what happened to the service
	Stream  string // what the client was sent
	Log     string // the end of the gateway's
}

func (f *Failure) Error() string {
	of := ""
	if f.Service != "" {
		of = ", " + f.Service
	}
	return fmt.Sprintf("seed %d, round %d%s: %v", f.Seed, f.Round, of, f.Err)
}

func (f *Failure) Unwrap() error { return f.Err }

// Details tells all that may help to find out why.
func (f *Failure) Details() string {
	return fmt.Sprintf("what happened:\n%s\nwhat the client was sent:\n%s\nthe gateway's log:\n%s\n", f.History, f.Stream, f.Log)
}

// failure tells what a client (nil: none) has seen.
func (s *simulation) failure(round int, c *client, err error) error {
	f := &Failure{Seed: s.cfg.Seed, Round: round, Err: err, Log: s.gateway.Log(40)}
	base := ""
	if c != nil {
		f.Service, base = c.service, c.base()
		for _, m := range c.stream.Recent() {
			f.Stream += m.String() + "\n"
		}
	}
	f.History = s.story.about(base)
	return f
}
