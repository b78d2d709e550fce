package links

import (
	"fmt"
	"slices"
	"strings"

	"isthmus/cmd/isthmus/internal/client"
	"isthmus/internal/adminapi"
)

// world is what a gateway shows, to find out what a cordon leaves.
type world struct {
	clusters adminapi.Clusters
	services []adminapi.Service
}

// impact is what a port of a service has from each cluster, now and without one of them.
type impact struct {
	service string
	port    uint16 // 0: no proxy follows the service, so its endpoints are not known
	streams int
	now     []string // CLUSTER N
	gone    int      // endpoints of the cluster in question
	left    int      // endpoints, or clusters that serve, once that one is out
}

// impacts lists all services that a cluster is in, as gateways show them, those that would
// be left with nothing first. Each gateway has proxies of its own: where several show a
// port, their streams add up, and the least that one sees is what is left.
func impacts(gateways []world, name string) (list []impact) {
	type port struct {
		service string
		number  uint16
	}
	places, followed := map[port]int{}, map[string]bool{}
	for i := range gateways {
		for _, one := range gateways[i].impacts(name) {
			followed[one.service] = followed[one.service] || one.port != 0
			at := port{one.service, one.port}
			place, shown := places[at]
			if !shown {
				places[at] = len(list)
				list = append(list, one)
				continue
			}
			before := list[place]
			streams := before.streams + one.streams
			if one.worse(&before) {
				list[place] = one
			}
			list[place].streams = streams
		}
	}
	list = slices.DeleteFunc(list, func(i impact) bool { return i.port == 0 && followed[i.service] })
	slices.SortStableFunc(list, func(a, b impact) int { return min(a.left, 1) - min(b.left, 1) })
	return list
}

// impacts lists all services that a cluster is in, as this gateway shows them.
func (w *world) impacts(name string) (list []impact) {
	for i := range w.services {
		s := &w.services[i]
		if !slices.ContainsFunc(s.Members, func(m adminapi.Member) bool { return m.Cluster == name }) {
			continue
		}
		if len(s.Ports) == 0 {
			list = append(list, w.unwatched(s, name))
		}
		for j := range s.Ports {
			list = append(list, w.watched(s, j, name))
		}
	}
	return list
}

func (w *world) watched(s *adminapi.Service, port int, name string) impact {
	p := &s.Ports[port]
	i := impact{service: s.Service, port: p.Port, streams: s.Streams}
	for _, m := range p.Members {
		n := max(0, m.Endpoints-m.Refused-m.Conflicts)
		i.now = append(i.now, fmt.Sprintf("%s %d", client.Printable(m.Cluster), n))
		switch {
		case m.Cluster == name:
			i.gone += n
		case w.uses(s, m.Cluster):
			i.left += n
		}
	}
	return i
}

func (w *world) unwatched(s *adminapi.Service, name string) impact {
	i := impact{service: s.Service}
	for _, m := range s.Members {
		i.now = append(i.now, client.Printable(m.Cluster))
		switch {
		case m.Cluster == name:
			i.gone++
		case m.Reason == "" && w.uses(s, m.Cluster):
			i.left++
		}
	}
	return i
}

// uses reports whether a service may use a cluster's endpoints: that is not withdrawn, and
// a tier of the service's preference names it for all clients. Tiers that name zones are
// not counted, since what they have depends on the client.
func (w *world) uses(s *adminapi.Service, cluster string) bool {
	entry, found := w.cluster(cluster)
	if !found || entry.Standing == adminapi.Withdrawn {
		return false
	}
	if s.Preference == nil {
		return true
	}
	for term := range strings.FieldsFuncSeq(s.Preference.Prefer, func(r rune) bool { return r == ',' || r == '+' || r == ' ' }) {
		local := cluster == "local"
		switch term {
		case "any":
			return true
		case "local":
			if local {
				return true
			}
		case "remote":
			if !local {
				return true
			}
		case "region":
			if local || entry.Region != "" && entry.Region == w.clusters.Local.Region {
				return true
			}
		case "zone":
		case cluster, "cluster/" + cluster:
			if !local {
				return true
			}
		}
	}
	return false
}

// cluster returns the entry of a cluster that can serve: of several Secrets for it, that
// of the one in use.
func (w *world) cluster(name string) (entry adminapi.Cluster, found bool) {
	if name == "local" {
		return w.clusters.Local, true
	}
	for _, c := range w.clusters.Clusters {
		if c.Cluster == name && (!found || c.Standing != "") {
			entry, found = c, true
		}
	}
	return entry, found
}

// worse reports whether less is left than by what another gateway shows of the same port.
func (i *impact) worse(than *impact) bool {
	if i.nothing() != than.nothing() {
		return i.nothing()
	}
	return i.left < than.left
}

// nothing reports whether the service would lose all that it has.
func (i *impact) nothing() bool { return i.gone > 0 && i.left == 0 }

// text is the service, what it has and, unless the cluster comes back, what becomes of that.
func (i *impact) text(back bool) string {
	now := strings.Join(i.now[:min(len(i.now), maxClusters)], ", ")
	if more := len(i.now) - maxClusters; more > 0 {
		now += fmt.Sprintf(" and %d more", more)
	}
	name, left := client.Printable(i.service), ""
	if i.port == 0 {
		now += ", without streams"
		left = "served by " + number(i.left, "other cluster")
	} else {
		name = fmt.Sprintf("%s port %d", name, i.port)
		now += ", " + number(i.streams, "stream")
		left = fmt.Sprintf("%d of %s", i.left, number(i.left+i.gone, "endpoint"))
	}
	switch {
	case back:
		return fmt.Sprintf("%s (%s)", name, now)
	case i.nothing():
		left = "NOTHING"
	}
	return fmt.Sprintf("%s: %s (now %s)", name, left, now)
}

// maxClusters is how many clusters of a service are listed.
const maxClusters = 6

// number is a number with its noun.
func number(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
