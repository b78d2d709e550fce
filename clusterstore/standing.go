package clusterstore

import (
	"cmp"
	"fmt"
	"strings"
	"time"

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
