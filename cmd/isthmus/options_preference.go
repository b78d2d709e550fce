package main

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus/clusterstore"
	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/federation"
	"isthmus/local"
)

// preferenceOptions are the values of the flags for which endpoints clients get.
type preferenceOptions struct {
	prefer, minReady        string
	returnAfter, returnOver string
	cordonLocal, region     string
	network                 string
	whenLost                string
	lostAfter               time.Duration

	// derived from the flags by check
	preference *federation.Preference // of Services without annotations
	cordon     federation.Standing    // of the own cluster
	lost       federation.Standing    // of linked clusters that are lost
}

func (o *preferenceOptions) preferenceFlags(s *pflag.FlagSet) {
	p := local.DefaultPreference()
	s.StringVar(&o.prefer, "prefer", p.String(), "`TIERS` of endpoints, best first, divided by commas, as in \"zone, local, any\". A tier is one term or several joined by +: "+
		"zone (the client's), local (the gateway's own cluster), region (clusters in its region, see --region), remote (all linked clusters), any (all clusters), or a linked cluster's name (cluster/NAME if it is called like one of these). "+
		"Clients get the first tiers that together have enough ready endpoints, see --min-ready. What no tier names is never served: end with any if all clusters may be used. "+
		"A Service's annotation isthmus.io/prefer replaces it, as isthmus.io/min-ready, isthmus.io/return-after and isthmus.io/return-over do for --min-ready, --return-after and --return-over.")
	s.StringVar(&o.minReady, "min-ready", p.MinReady.String(), "`NUMBER` of ready endpoints that are enough, or a percentage, such as 50%, of all endpoints of these tiers: with fewer, the next tier is added, at once.")
	s.StringVar(&o.returnAfter, "return-after", "10s", "Drop a tier again once those before it have been enough for this `DURATION` without a break, from 0s to 1h.")
	s.StringVar(&o.returnOver, "return-over", "0s", "Spread the dropping over this `DURATION`, about a tenth of the endpoints at a time, from 0s to 10m. 0s: all at once.")
}

func (o *preferenceOptions) standingFlags(s *pflag.FlagSet) {
	s.StringVar(&o.cordonLocal, "cordon-local", "false", "`CORDON` true takes the endpoints of the gateway's own cluster out of all services, last-resort serves them only while a service has no other ready endpoint, false serves them. Linked clusters have the annotation isthmus.io/cordon of their link Secrets.")
	s.StringVar(&o.region, "region", "", "`NAME` of the region that the gateway's own cluster is in, for the term region of --prefer. Empty: the one that all its Nodes have as their label topology.kubernetes.io/region.")
	s.StringVar(&o.network, "network", "", "`NAME` of the network that the gateway's own cluster is on. The Pods of a linked cluster whose link Secret has another one as its annotation isthmus.io/network can't be reached from here: its Linkerd gateways are served in their place. Empty: the network without a name, that link Secrets without the annotation are on too.")
	s.StringVar(&o.whenLost, "when-lost", "keep", "`ACTION` for a linked cluster whose API has not been followed for --lost-after: keep its endpoints, serve them as last-resort only, or withdraw them until it is followed again. "+
		"An API server may be out of reach while its cluster works, and proxies find endpoints that do not answer by themselves: so keep is the safe choice. A link Secret's annotation isthmus.io/when-lost replaces it.")
	s.DurationVar(&o.lostAfter, "lost-after", clusterstore.DefaultLostAfter, "`DURATION` after which --when-lost applies, from 1s to 24h. A link Secret's annotation isthmus.io/lost-after replaces it.")
}

// check returns what is wrong with the flags' values, and sets the fields that are
// derived from them.
func (o *preferenceOptions) check() error {
	p := local.DefaultPreference()
	for _, x := range []struct{ name, value string }{
		{"prefer", o.prefer}, {"min-ready", o.minReady}, {"return-after", o.returnAfter}, {"return-over", o.returnOver},
	} {
		if err := local.SetPreference(&p, x.name, x.value); err != nil {
			return cli.Usagef("--%s: %w", x.name, err)
		}
	}
	o.preference = &p
	var err error
	if o.cordon, err = readStanding("cordon-local", o.cordonLocal, "false", "last-resort", "true"); err != nil {
		return err
	}
	if o.lost, err = readStanding("when-lost", o.whenLost, "keep", "last-resort", "withdraw"); err != nil {
		return err
	}
	switch {
	case o.lostAfter < clusterstore.MinLostAfter || o.lostAfter > clusterstore.MaxLostAfter:
		return cli.Usagef("--lost-after is %v: give a duration from 1s to 24h, such as 1m", o.lostAfter)
	case o.region != "" && len(validation.IsValidLabelValue(o.region)) > 0:
		return cli.Usagef("--region is %q: give the name of a region as Nodes have it in their label: at most %d letters, digits, dashes, dots and underscores, the first and last a letter or digit",
			o.region, validation.LabelValueMaxLength)
	}
	if err := clusterstore.CheckNetwork(o.network); err != nil {
		return cli.Usagef("--network: %w", err)
	}
	return nil
}

// readStanding reads a flag whose words stand for each federation.Standing.
func readStanding(name, value string, words ...string) (federation.Standing, error) {
	i := slices.Index(words, value)
	if i < 0 {
		return 0, cli.Usagef("--%s is %q: give %s", name, value, strings.Join(words[:len(words)-1], ", ")+" or "+words[len(words)-1])
	}
	return federation.Standing(i), nil
}
