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

type preferenceOptions struct {
	preference      federation.Preference // for Services without annotations
	region, network string
	cordon          federation.Standing // of the local cluster
	whenLost        federation.Standing // of linked clusters that are lost
	lostAfter       time.Duration
}

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
		"Send clients the endpoints of these comma-separated `TIERS`, best first, as in \"zone, local, any\". "+
			"A tier is a term, or several terms joined by +. "+
			"The terms are zone (the client's zone), local (the local cluster), "+
			"region (clusters in the local cluster's region, see --region), "+
			"remote (all linked clusters), any (all clusters), "+
			"and the names of linked clusters (write cluster/NAME if the name is also a term). "+
			"Clients use the first tiers that together have enough ready endpoints (see --min-ready). "+
			"Endpoints that no tier includes are never served. To use all clusters, end with the tier \"any\". "+
			"The annotation isthmus.io/prefer on a Service overrides the value. "+
			"The annotations isthmus.io/min-ready, isthmus.io/return-after and isthmus.io/return-over "+
			"override --min-ready, --return-after and --return-over.")
	prefer("min-ready", o.preference.MinReady.String(),
		"Add the next tier immediately if the tiers in use have fewer than `NUMBER` ready endpoints. "+
			"A percentage, such as 50%, is a share of all endpoints in the tiers in use.")
	prefer("return-after", "10s",
		"Drop a tier once the tiers before it have had enough ready endpoints for `DURATION` (0s to 1h) "+
			"without interruption.")
	prefer("return-over", "0s",
		"Drop the endpoints of a tier gradually over `DURATION` (0s to 10m), about a tenth at a time. "+
			"If the duration is 0s, all endpoints are dropped immediately.")
}

func (o *preferenceOptions) standingFlags(s *pflag.FlagSet) {
	parse(s, &o.cordon, "cordon-local", "false", standing("false", "last-resort", "true"),
		"Set the `CORDON` of the local cluster. "+
			"If the value is true, no service includes the local cluster's endpoints. "+
			"If the value is last-resort, the endpoints are served only while a service has no other ready endpoint. "+
			"For a linked cluster, annotate its link Secret with isthmus.io/cordon.")
	parse(s, &o.region, "region", "", parseRegion,
		"Set the `NAME` of the local cluster's region. In --prefer, the term region refers to this region. "+
			"By default, Isthmus uses the label topology.kubernetes.io/region if its value is the same on all Nodes.")
	parse(s, &o.network, "network", "", parseNetwork,
		"Set the `NAME` of the local cluster's network. "+
			"If the annotation isthmus.io/network on a link Secret names a different network, "+
			"the cluster's Pods are unreachable, so Isthmus sends addresses of the cluster's Linkerd gateways. "+
			"By default, the network has no name. "+
			"Clusters whose link Secrets lack the annotation isthmus.io/network are on the unnamed network.")
	parse(s, &o.whenLost, "when-lost", "keep", standing("keep", "last-resort", "withdraw"),
		"Apply this `ACTION` to a linked cluster whose API has been unreachable for --lost-after. "+
			"The actions are keep (serve its endpoints), last-resort (serve them only as a last resort), "+
			"and withdraw (do not serve them until the API can be watched again). "+
			"The safe choice is keep: the cluster may still work even though its API server is unreachable, "+
			"and proxies detect unresponsive endpoints themselves. "+
			"The annotation isthmus.io/when-lost on a link Secret overrides the action.")
	parse(s, &o.lostAfter, "lost-after", clusterstore.DefaultLostAfter.String(),
		duration(clusterstore.MinLostAfter, clusterstore.MaxLostAfter, "a duration from 1s to 24h, such as 1m"),
		"Apply --when-lost after `DURATION` (1s to 24h). "+
			"The annotation isthmus.io/lost-after on a link Secret overrides the duration.")
}

// parseNetwork parses --network.
func parseNetwork(text string) (string, error) { return text, clusterstore.CheckNetwork(text) }

// parseRegion parses --region.
func parseRegion(text string) (string, error) {
	if text != "" && len(validation.IsValidLabelValue(text)) > 0 {
		return "", fmt.Errorf(
			"use the region name exactly as it appears in the region label of Nodes: "+
				"at most %d letters, digits, dashes, dots and underscores, with a letter or digit at both ends",
			validation.LabelValueMaxLength)
	}
	return text, nil
}
