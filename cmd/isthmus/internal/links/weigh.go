package links

import (
	"context"
	"fmt"
	"net/url"

	"isthmus/cmd/isthmus/internal/client"
	"isthmus/internal/adminapi"
)

// maxShown is how many services are listed.
const maxShown = 20

// weigh shows what the change leaves each service with, and refuses to leave one with
// nothing.
func (o *cordonOptions) weigh(ctx context.Context, w *work) error {
	gateways, err := o.foresee(ctx, w)
	switch {
	case err == nil:
	case o.back || o.force:
		w.warn("what this leaves is not known: %v", err)
		return nil
	default:
		return fmt.Errorf("what this leaves can't be found out: %w\n  --force does it all the same", err)
	}
	list := impacts(gateways)
	o.show(w, list)
	nothing := 0
	for i := range list {
		if list[i].Bare() {
			nothing++
		}
	}
	if nothing == 0 || o.back || o.lastResort || o.force {
		return nil
	}
	return fmt.Errorf("%d of these would be left with nothing: --last-resort keeps the cluster for them, and --force does it all the same", nothing)
}

// foresee asks every gateway what the change leaves.
func (o *cordonOptions) foresee(ctx context.Context, w *work) (list []*adminapi.Impact, err error) {
	path := "/debug/impact?" + url.Values{"cluster": {o.name}, "standing": {o.standing()}}.Encode()
	answers, err := client.ReadAll[adminapi.Impact](ctx, w.p, &o.Target, path)
	if err != nil {
		return nil, err
	}
	for _, a := range answers {
		switch {
		case a.NotReady: // it may know little, and must not keep a cluster from being taken out
			w.warn("what this leaves of proxies of %s is not known: %v", client.Printable(a.Gateway), a.Err)
		case a.Err != nil:
			return nil, a.Err
		default:
			list = append(list, a.Value)
		}
	}
	return list, nil
}

func (o *cordonOptions) show(w *work, list []adminapi.ServiceImpact) {
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
		fmt.Fprintf(w.out, "  %s\n", impactText(&list[i], o.back))
	}
	if more := len(list) - maxShown; more > 0 {
		fmt.Fprintf(w.out, "  … and %d more\n", more)
	}
}
