package linkerd

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"isthmus/local/exports/plan"
)

const (
	pollTimeout = 10 * time.Second
	maxLeases   = 5_000
	leaseTime   = 30 * time.Second // duration of the Leases of Linkerd's service mirrors

	ownLease  = "local-service-mirror-write"
	linkLease = "service-mirror-write-" // followed by the name of the Link or link
)

// lease records that a Lease is or was held.
type lease struct {
	renewed metav1.MicroTime // by the holder's clock
	until   time.Time        // end of the Lease without another renewal
}

func (m *Mirrors) readLeases(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, pollTimeout)
	defer stop()
	list, err := m.o.Leases(m.o.Namespace).List(ctx, metav1.ListOptions{Limit: maxLeases})
	if err == nil && list.Continue != "" {
		err = fmt.Errorf("there are more than %d", maxLeases)
	}
	m.update(func(now time.Time) bool {
		switch m.leasesErr = err; {
		case err != nil:
			return true
		case now.Sub(m.lastRead) > leaseTime: // a Lease may have been held and have ended in between
			m.readSince = now
		}
		m.lastRead = now
		seen := make(map[string]lease)
		for i := range list.Items {
			l, s := m.leases[list.Items[i].Name], &list.Items[i].Spec
			if held := ptr.Deref(s.HolderIdentity, "") != "" &&
				s.RenewTime != nil; held && !l.renewed.Equal(s.RenewTime) {
				l = lease{
					*s.RenewTime,
					now.Add(max(2*pollEvery, time.Duration(ptr.Deref(s.LeaseDurationSeconds, 0))*time.Second)),
				}
			} else if !held {
				continue
			}
			seen[list.Items[i].Name] = l
		}
		past := now.Add(-m.o.UnlinkedAfter - 2*pollEvery) // Leases that ended earlier have no effect
		for name, l := range m.leases {
			if _, ok := seen[name]; !ok && l.until.After(past) {
				if l.until.After(now) { // the Lease was released
					l.until = now
				}
				seen[name] = l
			}
		}
		m.leases = seen
		tell := m.readSince.After(past)
		for _, l := range seen {
			tell = tell || l.until.After(past)
		}
		return tell
	})
}

// lease returns the state of the Lease with the given name. The caller holds m.mu.
func (m *Mirrors) lease(name string, now time.Time) plan.Lease {
	until := m.leases[name].until
	switch {
	// A mirror releases its Lease when it restarts.
	case now.Before(until), !until.IsZero() && now.Sub(until) < m.o.UnlinkedAfter:
		return plan.Held
	case m.leasesErr != nil || m.readSince.IsZero() || !m.listed || now.Sub(m.readSince) < m.o.UnlinkedAfter:
		return plan.Unknown
	}
	return plan.Free
}
