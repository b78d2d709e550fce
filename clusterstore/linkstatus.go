package clusterstore

import (
	"fmt"
	"slices"
	"time"

	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/mcgateway"
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

// OwnRefused returns the requests for link Secrets, and for what is asked about the gateway's own network, that the own
// cluster's API server has refused.
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

func (s *Store) status(c *credentials, v *linkSnapshot) adminapi.Cluster {
	var used *credentials
	if v != nil {
		used = v.accepted
	}
	st := c.describe(used)
	st.State, st.Since, st.Server = cluster.Rejected, c.read, c.server
	switch {
	case used != nil && used.secret == c.secret:
		v.describe(&st, s.opts.Grace, s.own.problems())
		st.SecretVersion = v.version
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

// linkSnapshot is a link as other goroutines see it. It is immutable.
type linkSnapshot struct {
	state    cluster.State
	since    time.Time
	accepted *credentials
	version  string       // of the Secret, that the serving cluster is read with; empty: none serves
	cluster  Cluster      // the serving one or, if there is none yet, the next one
	readBy   *credentials // what cluster is read with
	next     Cluster      // in a rotation: the one that will replace cluster
	nextBy   *credentials // what next is read with
	failed   bool         // next has not worked so far
	waits    bool         // for its turn to start: next or, if there is none, cluster
	standing linkStanding

	// Only if the cluster is on another network:
	tracker *mcgateway.Tracker
	problem []string // of its gateways
}

// publish makes the link's present fields visible to other goroutines.
func (l *link) publish() {
	v := &linkSnapshot{state: l.state, since: l.since, accepted: l.accepted, standing: l.standing, tracker: l.gateways.tracker, problem: l.gateways.problem}
	switch {
	case l.serving != nil:
		v.cluster, v.readBy = l.serving.cluster, l.serving.creds
		if l.accepted != nil && l.accepted.secret == l.serving.creds.secret {
			v.version = l.serving.creds.version
		}
		if l.next != nil {
			v.next, v.nextBy, v.failed, v.waits = l.next.cluster, l.next.creds, l.next.failed, l.next.waits
		}
	case l.next != nil:
		v.cluster, v.readBy, v.waits = l.next.cluster, l.next.creds, l.next.waits
	}
	l.published.Store(v)
	l.store.LookAgain()
}

// publishedLinks returns the links that have published something.
func (s *Store) publishedLinks() map[federation.ClusterName]*linkSnapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	links := make(map[federation.ClusterName]*linkSnapshot, len(s.links))
	for name, l := range s.links {
		if v := l.published.Load(); v != nil {
			links[name] = v
		}
	}
	return links
}

// describe fills in the status of a link's cluster.
func (v *linkSnapshot) describe(st *adminapi.Cluster, grace time.Duration, ownProblems []string) {
	h := v.cluster.Health()
	h.Err = v.readBy.explain(h.Err)
	h.API.Expiry = v.readBy.expiry
	st.API = &h.API
	st.State, st.Since, st.Server = v.state, v.since, v.accepted.server
	st.LastEvent, st.Resources, st.Memory = h.LastEvent, h.Resources, h.Memory
	st.Standing, st.StandingReason, st.Region = v.standing.effective().String(), v.standing.reason(), v.standing.region
	st.ObjectWarnings = h.Warnings()
	st.Warnings = slices.Concat(v.accepted.warnings, v.standing.settings.warnings, st.ObjectWarnings)
	v.describeGateways(&st.ClusterStatus, ownProblems)
	switch {
	case v.state == cluster.Ready:
	case h.Err != nil:
		st.Reason = h.Err.Error()
	case v.waits && v.next == nil:
		st.Reason = fmt.Sprintf("waits for its turn: %d clusters at a time are connected to", maxStarts)
	case v.state == cluster.Unreachable && grace > 0:
		st.Reason = fmt.Sprintf("not synced within %v", grace)
	}
	switch {
	case v.next == nil:
	case v.waits && !v.failed:
		st.Warnings = append(st.Warnings, fmt.Sprintf("new credentials wait for their turn to be tried: %d clusters at a time are connected to; the old ones are in use", maxStarts))
	case !v.failed:
		st.Warnings = append(st.Warnings, "new credentials are being tried; the old ones are in use")
	default:
		st.NewCredentials = "new credentials do not work, the old ones are in use"
		if err := v.nextBy.explain(v.next.Health().Err); err != nil {
			st.NewCredentials += ": " + err.Error()
		}
		st.Warnings = append(st.Warnings, st.NewCredentials)
	}
}
