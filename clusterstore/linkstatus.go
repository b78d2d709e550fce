package clusterstore

import (
	"cmp"
	"fmt"
	"slices"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// SecretsListed reports whether the link Secrets have been listed yet, and why they
// can't be read at the moment; nil: they can. While they can't, links stay as they
// are.
func (s *Store) SecretsListed() (listed bool, err error) {
	now, _ := s.secrets.Get()
	if why := s.readErr.Load(); why != nil {
		err = *why
	}
	return now.listed, err
}

// Namespace returns that of the link Secrets.
func (s *Store) Namespace() string { return s.opts.Namespace }

// OwnRefused returns the requests for link Secrets that the local cluster's API server has refused.
func (s *Store) OwnRefused() []adminapi.RefusedRequest { return s.client.Server().Refused }

// Status returns one entry for every Secret of the link type, used or not, the oldest
// first.
func (s *Store) Status() []adminapi.Cluster {
	now, _ := s.secrets.Get()
	links := s.publishedLinks()
	list := make([]adminapi.Cluster, 0, len(now.secrets))
	for _, c := range now.secrets {
		list = append(list, s.status(c, links[c.cluster]))
	}
	return list
}

func (s *Store) status(c *credentials, v *linkState) adminapi.Cluster {
	var used *credentials
	if v != nil {
		used = v.accepted
	}
	st := c.describe(used)
	st.State, st.Since, st.Server = cluster.Rejected, c.read, c.server
	switch {
	case used != nil && used.secret == c.secret:
		v.describe(&st)
		if v.serving != nil && v.serving.creds.secret == c.secret {
			st.SecretVersion = v.serving.creds.version
		}
		if c.refused != nil {
			st.Warnings = append(st.Warnings, fmt.Sprintf("the Secret as it is now can't be used: %v; its previous version is used", c.refused))
		}
	case c.refused != nil:
		st.Reason = c.refused.Error()
	case used != nil:
		st.Reason = fmt.Sprintf("duplicate: Secret %s is used for cluster %s until it is deleted", used.secret, c.cluster)
	default:
		st.State = cluster.Pending // just read: its link has not published yet
	}
	return st
}

// publish makes the link's present fields visible to other goroutines.
func (l *link) publish() {
	v := l.linkState
	for _, r := range []**runningCluster{&v.serving, &v.next} {
		if *r != nil {
			*r = new(**r)
		}
	}
	l.published.Store(&v)
	l.store.LookAgain()
}

// shown returns the serving cluster or, if there is none yet, the next one; nil: there is neither.
func (v *linkState) shown() *runningCluster { return cmp.Or(v.serving, v.next) }

// publishedLinks returns the links that have published something.
func (s *Store) publishedLinks() map[federation.ClusterName]*linkState {
	s.mu.Lock()
	defer s.mu.Unlock()
	links := make(map[federation.ClusterName]*linkState, len(s.links))
	for name, l := range s.links {
		if v := l.published.Load(); v != nil {
			links[name] = v
		}
	}
	return links
}

// describe fills in the status of a link's cluster.
func (v *linkState) describe(st *adminapi.Cluster) {
	at := v.shown()
	h := at.cluster.Health()
	h.Err = at.creds.explain(h.Err)
	h.API.Expiry = at.creds.expiry
	st.API = &h.API
	st.State, st.Since, st.Server = v.state, v.since, v.accepted.server
	st.LastEvent, st.Resources, st.Memory = h.LastEvent, h.Resources, h.Memory
	st.Standing, st.StandingReason, st.Region = v.standing.effective().String(), v.standing.reason(), v.standing.region
	st.ObjectWarnings = h.Warnings()
	st.Warnings = slices.Concat(v.accepted.warnings, v.standing.settings.warnings, st.ObjectWarnings)
	for _, r := range st.NeverRead() {
		if r.Failure != adminapi.Forbidden { // which is for the check of permissions to judge
			st.Warnings = append(st.Warnings, r.Unread())
		}
	}
	v.describeGateways(&st.ClusterStatus)
	switch {
	case v.state == cluster.Ready:
	case h.Err != nil:
		st.Reason = h.Err.Error()
	case v.serving == nil && at.waits:
		st.Reason = fmt.Sprintf("waits for its turn: %d clusters at a time are connected to", maxStarts)
	case v.state == cluster.Unreachable && at.creds.rest != nil:
		st.Reason = fmt.Sprintf("not synced within %v", syncGrace)
	}
	switch {
	case v.serving == nil || v.next == nil || v.replacing():
	case v.next.waits && v.next.failed == nil:
		st.Warnings = append(st.Warnings, fmt.Sprintf("new credentials wait for their turn to be tried: %d clusters at a time are connected to; the old ones are in use", maxStarts))
	case v.next.failed == nil:
		st.Warnings = append(st.Warnings, "new credentials are being tried; the old ones are in use")
	default:
		st.NewCredentials = because("new credentials do not work, the old ones are in use", v.next.failed)
		for _, a := range v.next.awaits {
			st.Awaited = append(st.Awaited, a.kind.name)
		}
		st.Warnings = append(st.Warnings, st.NewCredentials)
	}
}
