package audit

import (
	"fmt"
	"slices"
	"time"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// job is one audit of a service of one cluster. Unless noted otherwise it belongs to the
// worker's goroutine.
type job struct {
	service federation.ServiceID // fixed
	turns   []*turn              // under Auditor.mu: that it is a part of
	since   time.Time            // fixed: when it was due

	at     time.Time // of the next look
	looks  int
	looked map[string]cluster.Looked // the newest, by resource
	order  []string                  // resources, as they were looked at
	open   map[string][]*sight       // by resource: differences that are there

	counted map[string]bool // resources that have had differences that count
}

// sight is a difference that has been seen, and since when it has not changed.
type sight struct {
	difference cluster.Difference
	since      time.Time
	counted    bool
	shown      *adminapi.AuditDifference // the newest that was counted of the object; nil: none
}

// judge compares what a look has found with what was found before. It returns the differences
// that count from now on, by resource, and those that have gone after they counted.
func (j *job) judge(all []cluster.Looked, now time.Time) (counted map[string][]*sight, healed []*adminapi.AuditDifference) {
	counted = make(map[string][]*sight)
	if j.looked == nil {
		j.looked, j.open, j.counted = make(map[string]cluster.Looked), make(map[string][]*sight), make(map[string]bool)
	}
	for _, l := range all {
		if _, known := j.looked[l.Resource]; !known {
			j.order = append(j.order, l.Resource)
		}
		j.looked[l.Resource] = l
		if l.Err != nil {
			continue // what was seen before may be there or not
		}
		var open []*sight
		before := j.open[l.Resource]
		for _, d := range l.Differences {
			s := remember(before, d, now)
			if !s.counted && now.Sub(s.since) >= Settle {
				s.counted, j.counted[l.Resource] = true, true
				counted[l.Resource] = append(counted[l.Resource], s)
			}
			open = append(open, s)
		}
		if j.open[l.Resource] = open; len(open) == 0 {
			delete(j.open, l.Resource)
		}
		for _, s := range before {
			if s.shown != nil && !slices.ContainsFunc(open, func(o *sight) bool { return o.difference.About(s.difference) }) {
				healed = append(healed, s.shown)
			}
		}
	}
	return counted, healed
}

// remember returns what is known of a difference: since when it has been seen as it is.
func remember(before []*sight, d cluster.Difference, now time.Time) *sight {
	for _, s := range before {
		switch {
		case s.difference.Same(d):
			return s
		case s.difference.About(d):
			return &sight{difference: d, since: now, shown: s.shown}
		}
	}
	return &sight{difference: d, since: now}
}

// wrong returns the resources that have differences that were counted and are still there.
func (j *job) wrong() (list []string) {
	for _, resource := range j.order {
		if slices.ContainsFunc(j.open[resource], func(s *sight) bool { return s.counted }) {
			list = append(list, resource)
		}
	}
	return list
}

// remains describes the differences of a resource that are still there after all looks;
// empty: there are none.
func (j *job) remains(resource string) string {
	changing, lasting := 0, 0
	for _, s := range j.open[resource] {
		if s.counted {
			lasting++
		} else {
			changing++
		}
	}
	switch {
	case lasting > 0:
		return plural(lasting, "1 object still differs", "%d objects still differ") + " after a new list"
	case changing > 0:
		return plural(changing, "1 object differs and changes", "%d objects differ and change") + " all the time: not compared"
	}
	return ""
}

// plural is a text about a number of objects: of one, or a format for more.
func plural(n int, single, many string) string {
	if n == 1 {
		return single
	}
	return fmt.Sprintf(many, n)
}
