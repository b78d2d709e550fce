package links

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"isthmus/cmd/isthmus/internal/commands"
	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

const maxShown = 20

// foresee asks every replica which endpoints each service would have if the cluster had the given
// standing. If some ready replicas do not return a usable response, foresee returns the first error
// together with all usable responses.
func foresee(ctx context.Context, w *work, t *commands.Target, cluster, standing string) (
	list []*adminapi.Impact, err error) {
	path := "/debug/impact?" + url.Values{"cluster": {cluster}, "standing": {standing}}.Encode()
	answers, err := commands.ReadAll[adminapi.Impact](ctx, w.p, t, path)
	if err != nil {
		return nil, err
	}
	for _, a := range answers {
		unchecked := a.Unchecked(w.p.Build)
		if a.Err == nil && unchecked != "" {
			a.Err = fmt.Errorf("%s cannot determine the effect: %s", commands.Printable(a.Replica), unchecked)
		}
		switch {
		case a.NotReady: // it may know little, and must not prevent a cordon
			w.warn("the effect on proxies connected to %s is unknown: %v", commands.Printable(a.Replica), a.Err)
		case a.Err == nil:
			list = append(list, a.Value)
		case err == nil:
			err = a.Err
		}
	}
	return list, err
}

// showImpacts prints the effect of a change on each service. The verb %s in the title is replaced
// with the name of the cluster. If the cluster returns to service, only the current endpoints are
// printed.
func showImpacts(w *work, list []adminapi.ServiceImpact, cluster, title string, back bool) {
	if len(list) == 0 {
		fmt.Fprintf(w.out, "No service has a member in %s.\n", cluster)
		return
	}
	fmt.Fprintf(w.out, title+"\n", cluster)
	for i := range list[:min(len(list), maxShown)] {
		fmt.Fprintf(w.out, "  %s\n", impactText(&list[i], back))
	}
	if more := len(list) - maxShown; more > 0 {
		fmt.Fprintf(w.out, "  … and %d more\n", more)
	}
}

func bare(list []adminapi.ServiceImpact) (of []adminapi.ServiceImpact) {
	for _, i := range list {
		if i.Bare() {
			of = append(of, i)
		}
	}
	return of
}

// impacts merges the responses of replicas. Each proxy is connected to only one replica. If several
// replicas report the same port, their stream counts are added up, and only the report with the
// fewest remaining endpoints is kept. Services that lose all endpoints come first.
func impacts(replicas []*adminapi.Impact) []adminapi.ServiceImpact {
	type port struct {
		service string
		watched bool
		number  uint16
	}
	var list []adminapi.ServiceImpact
	places := map[port]int{}
	watched := map[string]bool{}
	for _, page := range replicas {
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

func worse(i, than *adminapi.ServiceImpact) bool {
	if i.Bare() != than.Bare() {
		return i.Bare()
	}
	return adminapi.Total(i.Then) < adminapi.Total(than.Then)
}

// impactText returns a line with the current endpoints or clusters of a service. Unless the cluster
// returns to service, the line also says which endpoints or clusters remain.
func impactText(i *adminapi.ServiceImpact, back bool) string {
	name := commands.Printable(i.Service)
	one := "cluster"
	many := "clusters"
	now := counts(i.Now) + ", without streams"
	if i.Watched {
		name = fmt.Sprintf("%s port %d", name, i.Port)
		if i.Zone != "" {
			name += " in zone " + commands.Printable(i.Zone)
		}
		one = "endpoint"
		many = "endpoints"
		now = counts(i.Now) + ", " + text.Count(i.Streams, "stream", "streams")
	}
	left := fmt.Sprintf("%s instead of %d: %s", text.Count(adminapi.Total(i.Then), one, many), adminapi.Total(i.Now),
		counts(i.Then))
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
		words[i] = fmt.Sprintf("%s %d", commands.Printable(c.Cluster), c.Count)
	}
	return text.Some(words, 6)
}
