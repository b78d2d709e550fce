package sim

import (
	"math/rand/v2"

	"isthmus/internal/tierspec"
)

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
		"-prefer=" + f.prefer, "-min-ready=" + f.minReady, "-return-after=" + f.returnAfter, "-return-over=" + f.returnOver,
		"-when-lost=" + f.whenLost, "-lost-after=1s", "-cordon-local=" + f.cordonLocal, "-region=" + f.region, "-network=" + f.network,
	}
}

// preference is that of Services without annotations.
func (f gatewayFlags) preference() tierspec.Preference {
	return tierspec.Preference{}.With(map[string]string{
		tierspec.PreferKey:      f.prefer,
		tierspec.MinReadyKey:    f.minReady,
		tierspec.ReturnAfterKey: f.returnAfter,
		tierspec.ReturnOverKey:  f.returnOver,
	})
}
