package links

import (
	"context"
	"fmt"

	"isthmus/cmd/isthmus/internal/client"
	"isthmus/internal/adminapi"
)

// maxShown is how many services are listed.
const maxShown = 20

// weigh shows what the change leaves each service with, and refuses to leave one with
// nothing.
func (o *cordonOptions) weigh(ctx context.Context, w *work) error {
	gateways, err := o.look(ctx, w)
	switch {
	case err == nil:
	case o.back || o.force:
		w.warn("what this leaves is not known: %v", err)
		return nil
	default:
		return fmt.Errorf("what this leaves can't be found out: %w\n  --force does it all the same", err)
	}
	list := impacts(gateways, o.name)
	o.show(w, list)
	bare := 0
	for i := range list {
		if list[i].nothing() {
			bare++
		}
	}
	if bare == 0 || o.back || o.lastResort || o.force {
		return nil
	}
	return fmt.Errorf("%d of these would be left with nothing: --last-resort keeps the cluster for them, and --force does it all the same", bare)
}

// look reads what every gateway shows.
func (o *cordonOptions) look(ctx context.Context, w *work) (list []world, err error) {
	clusters, err := o.gateway.ReadAll(ctx, w.p, o.timeout, "/debug/clusters", func() any { return new(adminapi.Clusters) })
	if err != nil {
		return nil, err
	}
	services, err := o.gateway.ReadAll(ctx, w.p, o.timeout, "/debug/services", func() any { return new([]adminapi.Service) })
	if err != nil {
		return nil, err
	}
	shown := map[string]adminapi.Clusters{}
	for _, c := range clusters {
		if c.NotReady {
			continue
		}
		if c.Err != nil {
			return nil, c.Err
		}
		shown[c.Gateway] = *c.Value.(*adminapi.Clusters)
	}
	for _, s := range services {
		if s.NotReady { // it may know little, and must not keep a cluster from being taken out
			w.warn("what this leaves of proxies of %s is not known: %v", client.Printable(s.Gateway), s.Err)
			continue
		}
		if s.Err != nil {
			return nil, s.Err
		}
		page, ok := shown[s.Gateway]
		if !ok {
			return nil, fmt.Errorf("the gateway %s has only just begun: run this again", client.Printable(s.Gateway))
		}
		list = append(list, world{page, *s.Value.(*[]adminapi.Service)})
	}
	return list, nil
}

func (o *cordonOptions) show(w *work, list []impact) {
	if len(list) == 0 {
		fmt.Fprintf(w.out, "No service has a member in %s.\n", o.name)
		return
	}
	title := "Without " + o.name + " services have:"
	switch {
	case o.back:
		title = "Services with a member in " + o.name + ", which will be used again:"
	case o.lastResort:
		title = "Where other clusters have endpoints, these services do without " + o.name + ":"
	}
	fmt.Fprintln(w.out, title)
	for i := range list[:min(len(list), maxShown)] {
		fmt.Fprintf(w.out, "  %s\n", list[i].text(o.back))
	}
	if more := len(list) - maxShown; more > 0 {
		fmt.Fprintf(w.out, "  … and %d more\n", more)
	}
}
