package clusterstore

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

// linkStanding holds the region and the standing of a link's cluster, and the reasons for the
// standing. Only the link's goroutine writes to a linkStanding. Other goroutines receive copies.
type linkStanding struct {
	settings  linkSettings // settings from the newest version of the Secret that the link uses
	secret    string       // namespace and name of the Secret that the link uses; empty if there is none
	linkedAt  time.Time    // when the link got a cluster; zero if it has none
	lostSince time.Time    // when listing or watching the API failed; zero if both work
	lost      federation.Standing
	dead      bool // the cluster is only reachable through gateways that are all dead
	region    string

	nodesRegion string // region of the cluster's Nodes when they were last listed
	logged      federation.Standing
}

// The effective standing is the cordon or the standing that results from the cluster's condition,
// whichever is more restrictive.
func (s *linkStanding) effective() federation.Standing { return max(s.settings.cordon, s.notByHand()) }

// notByHand returns the standing that the cluster would have without a cordon.
func (s *linkStanding) notByHand() federation.Standing {
	if s.dead {
		return max(s.lost, federation.LastResort)
	}
	return s.lost
}

// mayBeLost reports whether the cluster is lost, or will be lost unless its API recovers.
func (s *linkStanding) mayBeLost() bool {
	return s.settings.whenLost != federation.InService && !s.lostSince.IsZero()
}

func (s *linkStanding) dueAt() time.Time { return s.lostSince.Add(s.settings.lostAfter) }

// untilLost returns a channel that receives a value when the cluster begins to count as lost. If
// the cluster already counts as lost, or if mayBeLost returns false, the channel is nil.
func (s *linkStanding) untilLost() <-chan time.Time {
	if !s.mayBeLost() || s.lost != federation.InService {
		return nil
	}
	return time.After(time.Until(s.dueAt()))
}

// reason returns the reason why the cluster is not in service, or "" if it is in service.
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
