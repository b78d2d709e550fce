package clusterstore

import (
	"fmt"
	"slices"
	"time"

	"isthmus/clusterstore/follow"
	"isthmus/federation"
)

// State says how far a link is.
type State string

const (
	// Rejected: the Secret can't be used, or an older one is.
	Rejected State = "rejected"
	// Pending: started, not yet synced.
	Pending State = "pending"
	// Unreachable: it has failed or taken too long, nothing is known of the
	// cluster yet, and it is still being tried.
	Unreachable State = "unreachable"
	// Ready: the cluster is served.
	Ready State = "ready"
	// Stale: it is served as it was when its API was lost.
	Stale State = "stale"
)

// LinkStatus tells about one link Secret and its cluster, for people. It never
// holds credentials.
type LinkStatus struct {
	Cluster   federation.ClusterName  `json:"cluster,omitempty"` // empty: the Secret names none that it could be for
	Secret    string                  `json:"secret,omitempty"`  // empty: the cluster that the gateway runs in
	State     State                   `json:"state"`
	Since     time.Time               `json:"since"`              // of the state
	LastEvent time.Time               `json:"lastEvent,omitzero"` // when the cluster was last heard of
	Server    string                  `json:"server,omitempty"`   // its API's host and port
	Reason    string                  `json:"reason,omitempty"`   // why it is not ready, as far as known
	Warnings  []string                `json:"warnings,omitempty"`
	Resources []follow.ResourceHealth `json:"resources,omitempty"`
}

// view is what a link looks like from outside. It is immutable.
type view struct {
	state    State
	since    time.Time
	accepted *credentials
	cluster  instance // that serves or, before any does, is to
	next     instance // that is to replace it, in a rotation
	failed   bool     // next does not work so far
}

// publish lets the outside see what the link is now.
func (l *link) publish() {
	v := &view{state: l.state, since: l.since, accepted: l.accepted}
	switch {
	case l.serving != nil:
		v.cluster = l.serving.cluster
		if l.next != nil {
			v.next, v.failed = l.next.cluster, l.next.failed
		}
	case l.next != nil:
		v.cluster = l.next.cluster
	}
	l.view.Store(v)
}

// Secrets tells whether the link Secrets have been listed yet, and why they can't
// be read at the moment; nil: they can. While they can't, links stay as they are.
func (s *Store) Secrets() (listed bool, err error) {
	now, _ := s.secrets.Get()
	if why := s.unread.Load(); why != nil {
		err = *why
	}
	return now.listed, err
}

// Status tells about every Secret of the link type, accepted or not, oldest
// first.
func (s *Store) Status() []LinkStatus {
	now, _ := s.secrets.Get()
	views := s.views()
	list := make([]LinkStatus, 0, len(now.secrets))
	for _, c := range now.secrets {
		list = append(list, s.status(c, views[c.cluster]))
	}
	return list
}

func (s *Store) status(c *credentials, v *view) LinkStatus {
	st := LinkStatus{Cluster: c.cluster, Secret: c.secret, State: Rejected, Since: c.read, Server: c.server}
	switch {
	case v != nil && v.accepted != nil && v.accepted.secret == c.secret:
		v.describe(&st, s.opts.Grace)
		if c.refused != nil {
			st.Warnings = append(st.Warnings, fmt.Sprintf("the Secret as it is now can't be used: %v; what it was before is", c.refused))
		}
	case c.refused != nil:
		st.Reason = c.refused.Error()
	case v != nil && v.accepted != nil:
		st.Reason = fmt.Sprintf("duplicate: Secret %s is used for this cluster; this one is when that is gone", v.accepted.secret)
	default:
		st.State = Pending // seen this very moment
	}
	return st
}

// views returns what the links show, as far as they have shown anything yet.
func (s *Store) views() map[federation.ClusterName]*view {
	s.mu.Lock()
	defer s.mu.Unlock()
	views := make(map[federation.ClusterName]*view, len(s.links))
	for name, l := range s.links {
		if v := l.view.Load(); v != nil {
			views[name] = v
		}
	}
	return views
}

// describe fills in what a link's cluster is doing.
func (v *view) describe(st *LinkStatus, grace time.Duration) {
	h := v.cluster.Health()
	st.State, st.Since, st.Server = v.state, v.since, v.accepted.server
	st.LastEvent, st.Resources = h.LastEvent, h.Resources
	st.Warnings = slices.Concat(v.accepted.warnings, h.Warnings())
	switch {
	case v.state == Ready:
	case h.Err != nil:
		st.Reason = h.Err.Error()
	case v.state == Unreachable:
		st.Reason = fmt.Sprintf("not synced within %v", grace)
	}
	switch {
	case v.next == nil:
	case !v.failed:
		st.Warnings = append(st.Warnings, "new credentials are being tried; those of before are in use")
	case v.next.Health().Err != nil:
		st.Warnings = append(st.Warnings, fmt.Sprintf("new credentials do not work, those of before are in use: %v", v.next.Health().Err))
	default:
		st.Warnings = append(st.Warnings, "new credentials do not work, those of before are in use")
	}
}

// Warnings says in words what is not as it should be though the cluster is
// followed.
func (h Health) Warnings() (list []string) {
	if h.MalformedProxies > 0 {
		list = append(list, fmt.Sprintf("meshed pods whose proxy does not say where it listens, served without transport header: %d", h.MalformedProxies))
	}
	const most = 10 // of what others may write as much of as they like
	for _, text := range h.Unusable[:min(most, len(h.Unusable))] {
		list = append(list, "left out: "+text)
	}
	if more := len(h.Unusable) - most; more > 0 {
		list = append(list, fmt.Sprintf("left out for reasons like that, besides these: %d", more))
	}
	return list
}
