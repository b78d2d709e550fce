package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
)

// resolved is what a name stands for.
type resolved struct {
	ips     []netip.Addr // sorted; when it was resolved last
	failure error        // of the last try
}

// Problems returns, for people, which names can't be resolved, and why, and how many addresses
// are not used.
func (t *Tracker) Problems() (list []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, r := range t.resolved {
		if r.failure != nil {
			list = append(list, "Linkerd gateway "+name+": "+r.failure.Error())
		}
	}
	slices.Sort(list)
	if t.left > 0 {
		list = append(list, fmt.Sprintf(
			"addresses of Linkerd gateways that are not used, since they are more than %d: %d", MostAddresses, t.left,
		))
	}
	return list
}

// namesOf returns the names among targets that are resolved: the first ones.
func namesOf(targets []Target) (names []string) {
	for _, x := range targets {
		if !x.IP.IsValid() && !slices.Contains(names, x.Name) && len(names) < MostAddresses {
			names = append(names, x.Name)
		}
	}
	return names
}

// resolve resolves names, all at once, and forgets all others. It reports whether each is
// known, by this time or one before.
func (t *Tracker) resolve(ctx context.Context, names []string) (known bool) {
	ctx, cancel := context.WithTimeout(ctx, resolveTake)
	defer cancel()
	found := make([]resolved, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { found[i].ips, found[i].failure = t.lookUp(ctx, name) })
	}
	all.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.resolved
	t.resolved = make(map[string]resolved, len(names))
	known = true
	for i, name := range names {
		if found[i].failure != nil {
			found[i].ips = before[name].ips
		}
		known = known && len(found[i].ips) > 0
		t.resolved[name] = found[i]
	}
	return known
}

// lookUp resolves a name, to addresses that could be another host's.
func (t *Tracker) lookUp(ctx context.Context, name string) ([]netip.Addr, error) {
	ips, err := t.cfg.Resolve(ctx, name)
	if err != nil {
		return nil, err
	}
	var list []netip.Addr
	for _, ip := range ips {
		if ip = ip.Unmap(); ip.Zone() == "" && t.cfg.Guard.Routable(ip) {
			list = append(list, ip)
		}
	}
	if len(list) == 0 {
		return nil, errors.New("it has no address that could be another host's")
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list), nil
}
