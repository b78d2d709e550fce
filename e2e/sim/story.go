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
	lines map[string][]event
	count int
}

type event struct {
	number int
	at     time.Time
	text   string
}

func newStory(cfg Config) *story {
	s := &story{lines: map[string][]event{}}
	if cfg.Verbose {
		s.out = cfg.Out
	}
	return s
}

const keptLines = 200

// note records what happened to a service or (empty) to what all have in common.
func (s *story) note(service, text string) {
	s.count++
	line := event{s.count, time.Now(), text}
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
	slices.SortFunc(all, func(a, b event) int { return a.number - b.number })
	var b strings.Builder
	for _, line := range all[max(0, len(all)-keptLines):] {
		fmt.Fprintln(&b, line)
	}
	return b.String()
}

func (e event) String() string {
	return fmt.Sprintf("%s step %d: %s", e.at.Format("15:04:05.000"), e.number, e.text)
}

// Failure is the error when the gateway did what it must not.
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

// Details returns all that may help to find out why.
func (f *Failure) Details() string {
	return fmt.Sprintf(
		"what happened:\n%s\nwhat the client was sent:\n%s\nthe gateway's log:\n%s\n",
		f.History,
		f.Stream,
		f.Log,
	)
}

// failure returns a Failure, with what a client (nil: none) has seen.
func failure(s *simulation, round int, c *client, err error) error {
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
