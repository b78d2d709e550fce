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

// Config is what to simulate. What happens, and in which order, follows from Seed and the numbers of clusters, services
// and so on; when exactly it happens does not.
type Config struct {
	Seed      uint64
	Clusters  int            // the local one too
	Services  int            // of those that clusters have in common
	Endpoints int            // of a service in a cluster, on average, at first
	Clients   int            // each with one stream
	Steps     int            // of a round at most, after which everything is checked
	Pace      time.Duration  // between steps, on average
	Faults    *regexp.Regexp // which ones may happen; nil: all

	Rounds   int           // 0: as many as fit
	Duration time.Duration // no round begins after that; 0: no limit
	Within   time.Duration // how long it may take until all is as it should be

	Gateway string    // path of its command; empty: it is built
	Log     io.Writer // gets its log, if not nil
	Out     io.Writer // gets a line for each round, if not nil
	Verbose bool      // and for each step
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
		return fmt.Errorf("%d clusters: it must be 2 to 2000", c.Clusters)
	case c.Services < 1 || c.Services > 100:
		return fmt.Errorf("%d services: it must be 1 to 100", c.Services)
	case c.Endpoints < 0 || c.Endpoints > 1000:
		return fmt.Errorf("%d endpoints of a service in a cluster: it must be 0 to 1000", c.Endpoints)
	case c.Clients < 1:
		return errors.New("at least one client is needed")
	case c.Steps < 1:
		return errors.New("at least one step in a round is needed")
	case c.Rounds < 0 || c.Duration < 0 || c.Rounds == 0 && c.Duration == 0:
		return errors.New("a number of rounds or a duration is needed, or the simulation would never end")
	case c.Within <= 0 || c.Pace < 0:
		return errors.New("pace and limit must not be negative, and the limit not 0")
	}
	return nil
}

// gatewayFlags are those of the gateway that differ from seed to seed.
type gatewayFlags struct {
	prefer, minReady, returnAfter, returnOver string // for Services without annotations
	whenLost                                  string // for link Secrets without
	cordonLocal, region, network              string // of the local cluster
}

// newFlags chooses flags by the seed. Times are short, since each round waits until they are over.
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

// args are the flags for the command line.
func (f gatewayFlags) args() []string {
	return []string{
		"-prefer=" + f.prefer, "-min-ready=" + f.minReady, "-return-after=" + f.returnAfter,
		"-return-over=" + f.returnOver,
		"-when-lost=" + f.whenLost, "-lost-after=1s", "-cordon-local=" + f.cordonLocal, "-region=" + f.region,
		"-network=" + f.network,
	}
}

// preference is that of Services without annotations.
func (f gatewayFlags) preference() spec.Preference {
	return spec.Preference{}.With(map[string]string{
		spec.PreferKey:      f.prefer,
		spec.MinReadyKey:    f.minReady,
		spec.ReturnAfterKey: f.returnAfter,
		spec.ReturnOverKey:  f.returnOver,
	})
}
