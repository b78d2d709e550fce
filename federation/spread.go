package federation

import (
	"hash/fnv"
	"time"
)

// parts is into how many parts, about equal, a cluster's endpoints are divided when they
// leave or come back one part after the other.
const parts = 10

// partOf is the part that an endpoint belongs to. It follows from a hash of the Pod's
// name or, without a Pod, of the address: so it is the same in all replicas, and all
// addresses and ports of a Pod are in one part.
func partOf(e *Endpoint) int {
	hash := fnv.New64a()
	if e.Twin == "" {
		addr := e.Addr.Addr().As16()
		_, _ = hash.Write(addr[:])
	}
	_, _ = hash.Write([]byte(e.Twin))
	_, _ = hash.Write([]byte(e.Cluster))
	h := hash.Sum64()
	h ^= h >> 33 // FNV's low bits are alike for texts that are alike
	h *= 0xff51afd7ed558ccd
	return int((h >> 33) % parts)
}

// standings are those of each part of a cluster's endpoints.
type standings [parts]Standing

// uniform is the same standing for all parts.
func uniform(s Standing) (list standings) {
	for i := range list {
		list[i] = s
	}
	return list
}

// atLeast raises those that are below s.
func (list standings) atLeast(s Standing) standings {
	for i := range list {
		list[i] = max(list[i], s)
	}
	return list
}

// spread is a change of standing that takes effect part by part.
type spread struct {
	from  standings // at start
	to    Standing
	start time.Time
	step  time.Duration // from part to part; 0: all have changed
}

// at returns the standings at a time, and when the next part changes; zero: none does.
func (s *spread) at(now time.Time) (list standings, next time.Time) {
	if s.step <= 0 {
		return uniform(s.to), time.Time{}
	}
	list = s.from
	done := max(0, now.Sub(s.start)) / s.step
	at := s.start
	for i := range list {
		if list[i] == s.to {
			continue
		}
		at = at.Add(s.step)
		if done == 0 {
			return list, at
		}
		list[i] = s.to
		done--
	}
	return list, time.Time{}
}

// changeTo returns the change to another standing that begins now, where this one has come to. It takes
// that time if all parts change, and less if some have the standing already.
func (s *spread) changeTo(to Standing, over time.Duration, now time.Time) spread {
	from, _ := s.at(now)
	if from == uniform(to) {
		return spread{to: to}
	}
	return spread{from: from, to: to, start: now, step: over / parts}
}
