package main

import (
	"fmt"
	"isthmus/federation"
	"isthmus/internal/adminapi"
	"strings"
)

func newPreferenceEntry(p *federation.Preference) *adminapi.Preference {
	return &adminapi.Preference{Prefer: p.String(), MinReady: p.MinReady.String(), ReturnAfter: p.ReturnAfter.String(), ReturnOver: p.ReturnOver.String()}
}

// addSteered adds what clients use of services that have a preference, or of which a
// member's cluster is taken out.
func (p servicesPage) addSteered(list []federation.SteeredService) {
	for _, one := range list {
		s := p.entry(one.Service)
		s.Preference, s.MoreClients = newPreferenceEntry(one.Preference), one.MoreViews
		for _, v := range one.Views {
			s.Clients = append(s.Clients, newClientsEntry(v, one.Preference))
		}
	}
}

func newClientsEntry(v federation.SteeredView, p *federation.Preference) adminapi.Clients {
	e := adminapi.Clients{
		Port: v.Port, Zone: v.Client.Zone, Instance: v.Client.Instance, Node: v.Client.Node,
		Since: v.Since, Why: v.Why, Tiers: make([]adminapi.Tier, len(v.Tiers)),
	}
	for i, t := range v.Tiers {
		e.Tiers[i] = adminapi.Tier{Tier: t.Name, InUse: i < v.InUse, Ready: t.Ready, Sent: t.Sent}
		if p.MinReady.Percent > 0 {
			e.Tiers[i].Known = t.Known
		}
	}
	if v.Next.IsZero() {
		e.WaitsFor = returnWaitsFor(v, p)
	} else {
		e.Next = &v.Next
	}
	return e
}

// returnWaitsFor is what the tiers before the last one in use lack.
func returnWaitsFor(v federation.SteeredView, p *federation.Preference) string {
	if v.InUse < 2 {
		return ""
	}
	before := v.Tiers[:v.InUse-1]
	var names []string
	ready, known := 0, 0
	for _, t := range before {
		names, ready, known = append(names, t.Name), ready+t.Ready, known+t.Known
	}
	row := strings.Join(names, ", ")
	switch {
	case len(before) == max(len(p.Tiers), 1): // the last one is that of last resort
		return row + ": none is ready"
	case p.MinReady.Percent > 0:
		return fmt.Sprintf("%s: %d of %d ready, min-ready is %v", row, ready, known, p.MinReady)
	}
	return fmt.Sprintf("%s: %d ready, min-ready is %v", row, ready, p.MinReady)
}
