package sim

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// story records recent events, by service. Events that concern all services are under "".
type story struct {
	out   io.Writer // if not nil, also receives each event
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

// note records an event of a service. If service is empty, the event concerns all services.
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

// about returns the events that concern a service.
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

// Failure is the error of a failed check.
type Failure struct {
	Seed    uint64
	Round   int
	Service string // the Service that the client subscribed to; empty if the failure concerns none
	Err     error
	History string // events that concern the service
	Stream  string // messages that the client received
	Log     string // the end of Isthmus' log
}

func (f *Failure) Error() string {
	of := ""
	if f.Service != "" {
		of = ", " + f.Service
	}
	return fmt.Sprintf("seed %d, round %d%s: %v", f.Seed, f.Round, of, f.Err)
}

func (f *Failure) Unwrap() error { return f.Err }

// Details returns everything that may help to find the cause.
func (f *Failure) Details() string {
	return fmt.Sprintf(
		"events:\n%s\nmessages to the client:\n%s\nlog of Isthmus:\n%s\n",
		f.History,
		f.Stream,
		f.Log,
	)
}

// failure returns a Failure with the messages that a client received. If c is nil, the failure
// concerns no client.
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
