package lists

import (
	"encoding/json"
	"fmt"

	"isthmus/internal/adminapi"
)

// Content is the gateway as it is at one moment.
type Content struct {
	Replica    adminapi.Replica
	Clusters   []adminapi.Cluster // link Secrets that are not used too; the own one has a name and no Secret
	Services   []adminapi.ServiceLine
	Streams    []adminapi.View
	Events     []adminapi.Event // the newest first
	MostEvents int              // that are kept
}

// Snapshot answers queries about a Content. It keeps what it has sorted, and nothing of queries.
type Snapshot struct {
	lists map[string]func(Query) (any, error) // by name
}

// NewSnapshot returns a snapshot of a content. It sets the severities of its services.
func NewSnapshot(c Content) *Snapshot {
	lines, inClusters := clusterLines(&c)
	inServices, inStreams := serviceTotals(c.Services), adminapi.StreamList{}
	for _, v := range c.Streams {
		inStreams.Streams += v.Streams
	}
	return &Snapshot{map[string]func(Query) (any, error){
		"clusters": finder(&clusters, lines, inClusters, func(a *adminapi.ClusterList) *adminapi.List[adminapi.ClusterLine] { return &a.List }),
		"services": finder(&services, c.Services, inServices, func(a *adminapi.ServiceList) *adminapi.List[adminapi.ServiceLine] { return &a.List }),
		"streams":  finder(&streams, c.Streams, inStreams, func(a *adminapi.StreamList) *adminapi.List[adminapi.View] { return &a.List }),
		"events":   finder(&eventKind, c.Events, adminapi.EventList{Most: c.MostEvents}, func(a *adminapi.EventList) *adminapi.List[adminapi.Event] { return &a.List }),
	}}
}

// finder returns what finds lines and adds totals to them.
func finder[T, A any](k *kind[T], lines []T, totals A, in func(*A) *adminapi.List[T]) func(Query) (any, error) {
	all := newList(k, lines)
	return func(q Query) (any, error) {
		answer := totals
		var err error
		*in(&answer), err = all.find(q)
		return answer, err
	}
}

func clusterLines(c *Content) ([]adminapi.ClusterLine, adminapi.ClusterList) {
	totals := adminapi.ClusterList{Replica: c.Replica, States: make(map[adminapi.ClusterState]int)}
	lines := make([]adminapi.ClusterLine, len(c.Clusters))
	for i := range c.Clusters {
		one := &c.Clusters[i]
		lines[i] = adminapi.ClusterLine{Cluster: *one, Severity: clusterSeverity(one)}
		totals.States[one.State]++
		if takenOut(one) {
			totals.TakenOut++
		}
	}
	return lines, totals
}

// serviceTotals also sets the severities.
func serviceTotals(lines []adminapi.ServiceLine) (totals adminapi.ServiceList) {
	for i := range lines {
		one := &lines[i]
		one.Severity = serviceSeverity(one)
		if one.Severity >= adminapi.Partial {
			totals.Troubled++
		}
		if one.Severity == adminapi.Broken {
			totals.Unserved++
		}
	}
	return totals
}

// Answer returns the JSON of a list, which is clusters, services, streams or events.
func (s *Snapshot) Answer(list string, q Query) ([]byte, error) {
	find := s.lists[list]
	if find == nil {
		return nil, fmt.Errorf("there is no list of %s", list)
	}
	found, err := find(q)
	if err != nil {
		return nil, err
	}
	answer, err := json.Marshal(found)
	if err != nil {
		return nil, fmt.Errorf("list of %s: %w", list, err)
	}
	return answer, nil
}
