package clusterstore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

// linkStanding is how far a link's cluster is taken out of all services, why, and where
// the cluster is. Its link's goroutine writes it; others get copies.
type linkStanding struct {
	settings  linkSettings // of the Secret in use, as it is now
	secret    string       // namespace and name of that Secret; empty: there is none
	linkedAt  time.Time    // since when there is a cluster; zero: there is none
	lostSince time.Time    // since when its API is not followed; zero: it is followed
	lost      federation.Standing
	dead      bool // it is reached through gateways, and none answers
	region    string

	nodesRegion string // by the Nodes of the cluster, as it was when they were last read
	logged      federation.Standing
}

// effective is what the cluster's standing comes to.
func (s *linkStanding) effective() federation.Standing { return max(s.settings.cordon, s.notByHand()) }

// notByHand is how far the cluster is taken out because it is not followed, or can't be
// reached.
func (s *linkStanding) notByHand() federation.Standing {
	if s.dead {
		return max(s.lost, federation.LastResort)
	}
	return s.lost
}

// useSettings makes the standing follow the newest version of the Secret whose credentials
// are in use, even if these are of an older version: a Secret with content that can't be
// used may have a cordon. nil: there are no credentials.
func (l *link) useSettings(list []*credentials, inUse *credentials) {
	s := &l.standing
	if inUse == nil {
		*s = linkStanding{}
		return
	}
	c := inUse
	if i := slices.IndexFunc(list, func(c *credentials) bool { return c.secret == inUse.secret }); i >= 0 {
		c = list[i]
	}
	if w := c.standing.warnings; len(w) > 0 && !slices.Equal(w, s.settings.warnings) {
		l.log.Warn("annotations of a link Secret can't be read", zap.String("secret", c.secret), zap.Strings("warnings", w))
	}
	s.settings, s.secret = c.standing, l.store.opts.Namespace+"/"+c.secret
}

// setLink gives the table the link as it is now. It is called whenever that may have
// changed.
func (l *link) setLink() {
	s := &l.standing
	switch {
	case l.next == nil && l.serving == nil:
		l.store.setLink(l.name, federation.Link{})
		s.linkedAt = time.Time{}
		return
	case s.linkedAt.IsZero():
		s.linkedAt = time.Now()
	}
	s.lostSince = s.linkedAt
	l.setRegion()
	now := federation.Link{State: federation.Pending}
	switch {
	case l.serving != nil:
		now.State, now.Source, now.Within = federation.Ready, l.readable(), l.serving.creds.ranges
		s.lostSince = l.serving.cluster.Health().StaleSince
	case l.state == cluster.Unreachable:
		now.State = federation.Unreachable
	}
	s.lost = federation.InService
	if s.mayBeLost() && !time.Now().Before(s.dueAt()) {
		s.lost = s.settings.whenLost
	}
	s.dead = l.gateways.allDead()
	now.Region, now.Cordon, now.CordonOver, now.Lost = s.region, s.settings.cordon, s.settings.cordonOver, s.notByHand()
	l.store.setLink(l.name, now)
}

// setRegion notes where the cluster is, and logs that if it was elsewhere. New credentials that can't read Nodes leave
// the region as it was.
func (l *link) setRegion() {
	s, before := &l.standing, l.standing.region
	if region, known := cmp.Or(l.serving, l.next).cluster.Region(); known {
		s.nodesRegion = region
	}
	s.region = cmp.Or(s.settings.region, s.nodesRegion)
	if before != "" && before != s.region {
		l.log.Info("region of a cluster changed", zap.String("region", s.region), zap.String("before", before))
	}
}

// mayBeLost reports whether the cluster is lost, or will be at dueAt if nothing changes.
func (s *linkStanding) mayBeLost() bool {
	return s.settings.whenLost != federation.InService && !s.lostSince.IsZero()
}

func (s *linkStanding) dueAt() time.Time { return s.lostSince.Add(s.settings.lostAfter) }

// untilLost returns a channel that gets something when the cluster will be lost; nil:
// it is already, or will not be.
func (s *linkStanding) untilLost() <-chan time.Time {
	if !s.mayBeLost() || s.lost != federation.InService {
		return nil
	}
	return time.After(time.Until(s.dueAt()))
}

// logStanding logs the standing if it has changed.
func (l *link) logStanding() {
	s := &l.standing
	now := s.effective()
	if now == s.logged {
		return
	}
	why := s.reason()
	switch {
	case why != "":
	case s.lostSince.IsZero():
		why = "not cordoned, and its API is followed"
	default:
		why = "not cordoned, and not lost by its when-lost and lost-after"
	}
	l.log.Info("standing of a cluster changed", zap.Stringer("standing", now), zap.Stringer("before", s.logged), zap.String("reason", why))
	l.report(cluster.StandingChanged, now.String()+": "+why, now != federation.InService)
	s.logged = now
}

// reason describes why the cluster is not in service; empty: it is.
func (s *linkStanding) reason() string {
	var list []string
	by := "by " + cmp.Or(s.settings.cordonBy, fmt.Sprintf("annotation %s of Secret %s", CordonAnnotation, s.secret))
	switch {
	case s.settings.cordon == federation.Withdrawn:
		list = append(list, "cordoned "+by)
	case s.settings.cordon == federation.LastResort:
		list = append(list, "cordoned as last resort "+by)
	}
	if s.lost != federation.InService {
		list = append(list, fmt.Sprintf("lost for %v", time.Since(s.lostSince).Truncate(time.Second)))
	}
	if s.dead {
		list = append(list, cluster.NoGatewayAnswers)
	}
	return strings.Join(list, "; ")
}
