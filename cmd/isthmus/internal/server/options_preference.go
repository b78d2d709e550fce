package server

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus/clusterstore"
	"isthmus/federation"
	"isthmus/local"
)

// preferenceOptions are the values of the flags that choose endpoints for clients.
type preferenceOptions struct {
	preference      federation.Preference // for Services without annotations
	region, network string
	cordon          federation.Standing // of the local cluster
	whenLost        federation.Standing // of linked clusters that are lost
	lostAfter       time.Duration
}

// preferenceFlags defines the flags that choose clusters for clients.
func (o *preferenceOptions) preferenceFlags(s *pflag.FlagSet) {
	o.preference = local.DefaultPreference()
	prefer := func(name, value, usage string) {
		parse(s, &o.preference, name, value, func(text string) (federation.Preference, error) {
			p := o.preference
			if err := local.SetPreference(&p, name, text); err != nil {
				return p, errors.New(strings.TrimPrefix(err.Error(), fmt.Sprintf("it is %q: ", text)))
			}
			return p, nil
		}, usage)
	}
	prefer("prefer", o.preference.String(),
		"`TIERS` of endpoints, best first, divided by commas, as in \"zone, local, any\". "+
			"A tier is one term or several joined by +: "+
			"zone (the client's), local (the gateway's own cluster), region (clusters in its region, see --region), "+
			"remote (all linked clusters), any (all clusters), "+
			"or a linked cluster's name (cluster/NAME if it is called like one of these). "+
			"Clients get the first tiers that together have enough ready endpoints, see --min-ready. "+
			"What no tier names is never served: end with any if all clusters may be used. "+
			"A Service's annotation isthmus.io/prefer replaces it, as isthmus.io/min-ready, "+
			"isthmus.io/return-after and isthmus.io/return-over do for --min-ready, --return-after and --return-over.")
	prefer("min-ready", o.preference.MinReady.String(),
		"`NUMBER` of ready endpoints that are enough, or a percentage, such as 50%, of all endpoints of these tiers: "+
			"with fewer, the next tier is added, at once.")
	prefer("return-after", "10s",
		"Drop a tier again once those before it have been enough for this `DURATION` without a break, from 0s to 1h.")
	prefer("return-over", "0s",
		"Spread the dropping over this `DURATION`, about a tenth of the endpoints at a time, from 0s to 10m. "+
			"0s: all at once.")
}

// standingFlags defines the flags that take clusters out of service.
func (o *preferenceOptions) standingFlags(s *pflag.FlagSet) {
	parse(s, &o.cordon, "cordon-local", "false", standing("false", "last-resort", "true"),
		"`CORDON` true takes the endpoints of the gateway's own cluster out of all services, "+
			"last-resort serves them only while a service has no other ready endpoint, false serves them. "+
			"Linked clusters have the annotation isthmus.io/cordon of their link Secrets.")
	parse(s, &o.region, "region", "", parseRegion,
		"`NAME` of the region that the gateway's own cluster is in, for the term region of --prefer. "+
			"Empty: the one that all its Nodes have as their label topology.kubernetes.io/region.")
	parse(s, &o.network, "network", "", parseNetwork,
		"`NAME` of the network that the gateway's own cluster is on. "+
			"The Pods of a linked cluster whose link Secret has another one as its annotation isthmus.io/network "+
			"can't be reached from here: its Linkerd gateways are served in their place. "+
			"Empty: the network without a name, that link Secrets without the annotation are on too.")
	parse(s, &o.whenLost, "when-lost", "keep", standing("keep", "last-resort", "withdraw"),
		"`ACTION` for a linked cluster whose API has not been followed for --lost-after: "+
			"keep its endpoints, serve them as last-resort only, or withdraw them until it is followed again. "+
			"An API server may be out of reach while its cluster works, "+
			"and proxies find endpoints that do not answer by themselves: so keep is the safe choice. "+
			"A link Secret's annotation isthmus.io/when-lost replaces it.")
	parse(s, &o.lostAfter, "lost-after", clusterstore.DefaultLostAfter.String(),
		duration(clusterstore.MinLostAfter, clusterstore.MaxLostAfter, "a duration from 1s to 24h, such as 1m"),
		"`DURATION` after which --when-lost applies, from 1s to 24h. "+
			"A link Secret's annotation isthmus.io/lost-after replaces it.")
}

// parseNetwork parses --network.
func parseNetwork(text string) (string, error) { return text, clusterstore.CheckNetwork(text) }

// parseRegion parses --region.
func parseRegion(text string) (string, error) {
	if text != "" && len(validation.IsValidLabelValue(text)) > 0 {
		return "", fmt.Errorf(
			"give the name of a region as Nodes have it in their label: "+
				"at most %d letters, digits, dashes, dots and underscores, the first and last a letter or digit",
			validation.LabelValueMaxLength)
	}
	return text, nil
}
