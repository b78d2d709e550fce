package cluster

import (
	"fmt"

	"isthmus/clusterstore/follow"
)

// Health says how a cluster's API is doing, and what of its objects is of no use.
type Health struct {
	follow.Health
	// MalformedProxies counts the meshed Pods whose proxy's listen addresses
	// are missing or can't be read. They are served without transport header.
	MalformedProxies int
	// Unusable names the Servers, ExternalWorkloads and ServiceProfiles whose
	// writer has given them a form that can't be used, and says why. They are
	// treated as absent, but for ServiceProfiles: those stand in the way of
	// others, or, if only a part can't be used, are used without it.
	Unusable []string
	// RejectedProfiles counts the ServiceProfiles that can't be used at all.
	RejectedProfiles int
}

// Health says how the cluster's API is doing.
func (c *Cluster) Health() Health {
	h := Health{Health: c.group.Health()}
	h.MalformedProxies = c.state.malformedProxies()
	h.Unusable, h.RejectedProfiles = c.state.unusableObjects()
	return h
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
