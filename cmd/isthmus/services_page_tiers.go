package main

import (
	"fmt"
	"strings"
	"time"

	"isthmus/federation"
)

// preferenceEntry is which endpoints of a service clients get, as users write it.
type preferenceEntry struct {
	Prefer      string `json:"prefer"`
	MinReady    string `json:"minReady"`
	ReturnAfter string `json:"returnAfter"`
	ReturnOver  string `json:"returnOver"`
}

func newPreferenceEntry(p *federation.Preference) *preferenceEntry {
	return &preferenceEntry{p.String(), p.MinReady.String(), p.ReturnAfter.String(), p.ReturnOver.String()}
}

// clientsEntry is what one kind of client uses of a service port.
type clientsEntry struct {
	Port     uint16      `json:"port"` // 0: all ports that no cluster's Service declares
	Zone     string      `json:"zone"` // empty: not known
	Instance string      `json:"instance,omitempty"`
	Node     string      `json:"node,omitempty"` // where it matters
	Tiers    []tierEntry `json:"tiers"`          // in order; the last may be that of clusters of last resort
	Since    time.Time   `json:"since"`          // since when those in use are
	Why      string      `json:"why"`            // why they were taken into use then
	// WaitsFor is what must come before clients use fewer tiers; empty: nothing, since
	// they use one, or some of the endpoints leave at Next.
	WaitsFor string     `json:"returnWaitsFor,omitempty"`
	Next     *time.Time `json:"nextStep,omitempty"` // when endpoints leave, unless something changes before
}

// tierEntry is what one tier has.
type tierEntry struct {
	Tier  string `json:"tier"`
	InUse bool   `json:"inUse"`
	Ready int    `json:"ready"`
	Known int    `json:"known,omitempty"` // ready or not, where min-ready is a percentage
	Sent  int    `json:"sent"`            // to these clients
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

func newClientsEntry(v federation.SteeredView, p *federation.Preference) clientsEntry {
	e := clientsEntry{
		Port: v.Port, Zone: v.Client.Zone, Instance: v.Client.Instance, Node: v.Client.Node,
		Since: v.Since, Why: v.Why, Tiers: make([]tierEntry, len(v.Tiers)),
	}
	for i, t := range v.Tiers {
		e.Tiers[i] = tierEntry{Tier: t.Name, InUse: i < v.InUse, Ready: t.Ready, Sent: t.Sent}
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
