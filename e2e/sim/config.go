package sim

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"time"

	"isthmus/internal/spec"
)

// Config describes a simulation. Seed and the numbers (of clusters, services, …) determine what
// happens and in which order, but not the timing.
type Config struct {
	Seed      uint64
	Clusters  int            // including the local one
	Services  int            // services that clusters have in common
	Endpoints int            // initial endpoints of a service in a cluster, on average
	Clients   int            // clients with one stream each
	Steps     int            // maximum of a round
	Pace      time.Duration  // average time between steps
	Faults    *regexp.Regexp // faults that may happen; nil means all

	Rounds   int           // 0 means no limit
	Duration time.Duration // no round begins after Duration; 0 means no limit
	Within   time.Duration // limit for clients to converge after a round

	Gateway string    // path of the isthmus binary; if empty, it is built
	Log     io.Writer // if not nil, receives the log of Isthmus
	Out     io.Writer // if not nil, receives a line for each round
	Verbose bool      // a line for each step as well
}

func (c *Config) validate() error {
	if c.Faults == nil {
		c.Faults = regexp.MustCompile("")
	}
	if c.Out == nil {
		c.Out = io.Discard
	}
	switch {
	case c.Clusters < 2 || c.Clusters > 2000:
		return fmt.Errorf("%d clusters: must be 2 to 2000", c.Clusters)
	case c.Services < 1 || c.Services > 100:
		return fmt.Errorf("%d services: must be 1 to 100", c.Services)
	case c.Endpoints < 0 || c.Endpoints > 1000:
		return fmt.Errorf("%d endpoints of a service in a cluster: must be 0 to 1000", c.Endpoints)
	case c.Clients < 1:
		return errors.New("no clients: must be at least 1")
	case c.Steps < 1:
		return errors.New("no steps in a round: must be at least 1")
	case c.Rounds < 0 || c.Duration < 0 || c.Rounds == 0 && c.Duration == 0:
		return errors.New("no limit: set a number of rounds or a duration")
	case c.Within <= 0 || c.Pace < 0:
		return errors.New("the pace must not be negative, and the limit must be positive")
	}
	return nil
}

// gatewayFlags are the flags of Isthmus that differ between seeds.
type gatewayFlags struct {
	prefer, minReady, returnAfter, returnOver string // defaults for Services without annotations
	whenLost                                  string // default for link Secrets without the annotation
	cordonLocal, region, network              string // for the local cluster
}

// newFlags chooses flags by the seed. The durations are short, since each round waits for them.
func newFlags(seed uint64) gatewayFlags {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1<<32))}
	return gatewayFlags{
		prefer:      pick(w, []string{"any", "any", "local, any", "zone, local, region, any"}),
		minReady:    pick(w, []string{"1", "1", "2", "50%"}),
		returnAfter: pick(w, []string{"0s", "500ms", "1s"}),
		returnOver:  pick(w, []string{"0s", "0s", "1s"}),
		whenLost:    pick(w, []string{"keep", "keep", "last-resort", "withdraw"}),
		cordonLocal: pick(w, []string{"false", "false", "false", "false", "false", "last-resort", "true"}),
		region:      pick(w, []string{"", "", "region-1"}),
		network:     pick(w, []string{"", "", "", networkName}),
	}
}

// args returns the flags as arguments of the command.
func (f gatewayFlags) args() []string {
	return []string{
		"-prefer=" + f.prefer, "-min-ready=" + f.minReady, "-return-after=" + f.returnAfter,
		"-return-over=" + f.returnOver,
		"-when-lost=" + f.whenLost, "-lost-after=1s", "-cordon-local=" + f.cordonLocal, "-region=" + f.region,
		"-network=" + f.network,
	}
}

// preference returns the preference of a Service without annotations.
func (f gatewayFlags) preference() spec.Preference {
	return spec.Preference{}.With(map[string]string{
		spec.PreferKey:      f.prefer,
		spec.MinReadyKey:    f.minReady,
		spec.ReturnAfterKey: f.returnAfter,
		spec.ReturnOverKey:  f.returnOver,
	})
}
