package links

import (
	"fmt"
	"slices"

	"isthmus/cmd/isthmus/internal/client"
	"isthmus/internal/adminapi"
	"isthmus/internal/legible"
)

// impacts joins what gateways foresee for services, those that would be left with nothing first.
// Each gateway has proxies of its own: where several foresee something for a port, their streams
// add up, and the least that one foresees is what is left.
func impacts(gateways []*adminapi.Impact) []adminapi.ServiceImpact {
	type port struct {
		service string
		watched bool
		number  uint16
	}
	var list []adminapi.ServiceImpact
	places, watched := map[port]int{}, map[string]bool{}
	for _, page := range gateways {
		for _, one := range page.Services {
			watched[one.Service] = watched[one.Service] || one.Watched
			at := port{one.Service, one.Watched, one.Port}
			place, known := places[at]
			if !known {
				places[at] = len(list)
				list = append(list, one)
				continue
			}
			streams := list[place].Streams + one.Streams
			if worse(&one, &list[place]) {
				list[place] = one
			}
			list[place].Streams = streams
		}
	}
	list = slices.DeleteFunc(list, func(i adminapi.ServiceImpact) bool { return !i.Watched && watched[i.Service] })
	slices.SortStableFunc(list, func(a, b adminapi.ServiceImpact) int {
		return min(adminapi.Total(a.Then), 1) - min(adminapi.Total(b.Then), 1)
	})
	return list
}

// worse reports whether less is left than another gateway foresees for the same port.
func worse(i, than *adminapi.ServiceImpact) bool {
	if i.Bare() != than.Bare() {
		return i.Bare()
	}
	return adminapi.Total(i.Then) < adminapi.Total(than.Then)
}

// impactText is the service, what it has and, unless the cluster comes back, what becomes of that: of endpoints, or of clusters that serve it.
func impactText(i *adminapi.ServiceImpact, back bool) string {
	name := client.Printable(i.Service)
	one, many, now := "cluster", "clusters", counts(i.Now)+", without streams"
	if i.Watched {
		name = fmt.Sprintf("%s port %d", name, i.Port)
		if i.Zone != "" {
			name += " in zone " + client.Printable(i.Zone)
		}
		one, many, now = "endpoint", "endpoints", counts(i.Now)+", "+legible.Count(i.Streams, "stream", "streams")
	}
	left := fmt.Sprintf("%s instead of %d: %s", legible.Count(adminapi.Total(i.Then), one, many), adminapi.Total(i.Now), counts(i.Then))
	switch {
	case back:
		return fmt.Sprintf("%s (%s)", name, now)
	case i.Bare():
		left = "NOTHING"
	}
	return fmt.Sprintf("%s: %s (now %s)", name, left, now)
}

func counts(list []adminapi.ImpactCount) string {
	words := make([]string, len(list))
	for i, c := range list {
		words[i] = fmt.Sprintf("%s %d", client.Printable(c.Cluster), c.Count)
	}
	return legible.Some(words, 6)
}
