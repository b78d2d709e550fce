package federation

import (
	"slices"
	"time"
)

// Link is what a cluster's link is now, for the table. The zero value: not linked.
type Link struct {
	State  LinkState
	Source Source // with Ready, otherwise nil. Sources must be comparable (pointers)
	Within Ranges // of a linked cluster, only endpoints within these addresses are taken; nil: all addresses
	Region string // where the cluster is; empty: not known

	// Cordon is how far the cluster's endpoints are taken out by hand. A change takes
	// effect in about ten equal steps over CordonOver; 0: at once. The first Link of a
	// cluster takes effect at once.
	Cordon     Standing
	CordonOver time.Duration
	// Lost is how far they are taken out because the cluster's API is not followed. It
	// takes effect at once.
	Lost Standing
}

// Standing is how far a cluster's endpoints are taken out of all services. Of two that
// apply to a cluster, the greater wins.
type Standing uint8

const (
	// InService: they are not taken out.
	InService Standing = iota
	// LastResort: they are served only while a service has no other ready endpoint.
	LastResort
	// Withdrawn: they are not served.
	Withdrawn
)

func (s Standing) String() string { return [...]string{"in-service", "last-resort", "withdrawn"}[s] }

// Link sets the state of a cluster's link, with Ready also its source: SetLink for a
// cluster without conditions.
func (t *Table) Link(c ClusterName, state LinkState, src Source) {
	t.SetLink(c, Link{State: state, Source: src})
}

// Unlink removes a cluster's link, and publishes what that changes.
func (t *Table) Unlink(c ClusterName) { t.SetLink(c, Link{}) }

// equal compares ranges by content.
func (l Link) equal(o Link) bool {
	return l.State == o.State && l.Source == o.Source && l.Region == o.Region &&
		l.Cordon == o.Cordon && l.CordonOver == o.CordonOver && l.Lost == o.Lost &&
		(l.Within == nil) == (o.Within == nil) && slices.Equal(l.Within, o.Within)
}

// link is a Link as the table keeps it.
type link struct {
	Link
	within *Ranges // of Link.Within, the same pointer while that is equal; nil: all addresses
	cordon spread  // how Link.Cordon takes effect
}

// replace returns the link with other content from now on.
func (l link) replace(by Link, now func() time.Time) link {
	next := link{Link: by, within: l.within, cordon: l.cordon}
	switch {
	case by.Within == nil:
		next.within = nil
	case l.within == nil || !slices.Equal(*l.within, by.Within):
		next.within = &by.Within
	}
	switch {
	case l.State == Unlinked:
		next.cordon = spread{to: by.Cordon}
	case l.Cordon != by.Cordon || l.CordonOver != by.CordonOver:
		next.cordon = l.cordon.changeTo(by.Cordon, by.CordonOver, now())
	}
	return next
}

// takesOut reports whether anything of the cluster is taken out, or has been since its
// cordon was set.
func (l link) takesOut() bool { return l.Lost != InService || l.cordon != spread{} }

// standings returns those of the cluster at a time, and when they change next; zero:
// not by themselves.
func (l *link) standings(now time.Time) (standings, time.Time) {
	list, next := l.cordon.at(now)
	return list.atLeast(l.Lost), next
}
