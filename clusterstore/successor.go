package clusterstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"isthmus/clusterstore/cluster"
	"isthmus/internal/adminapi"
)

// A successor is a cluster that new credentials have started while another one serves. A kind of object that it has not
// listed looks as if the cluster had no such objects: endpoints would vanish, and opaque ports would no longer be
// opaque. So a successor finishes its first sync, and replaces the serving cluster, only once it has listed each kind
// that the serving cluster has objects of, or once admitSuccessor has given that kind up.

// awaitable is an optional kind of object that endpoints are made of.
type awaitable struct {
	resource string // as the health of a cluster has it
	name     string // as permissions have it
	always   bool   // it is also awaited if the API server refuses to list it
}

var awaitables = []awaitable{
	{resource: "servers", name: "servers.policy.linkerd.io", always: true},
	{resource: "externalworkloads", name: "externalworkloads.workload.linkerd.io", always: true},
	{resource: "replicasets", name: "replicasets.apps"}, // without them only labels differ
	{resource: "jobs", name: "jobs.batch"},
}

// awaitedKind is a kind that a successor has to list before it replaces the serving cluster.
type awaitedKind struct {
	kind   awaitable
	serves int                // how many objects of the kind the serving cluster has
	now    *adminapi.Resource // of the successor
}

func (a *awaitedKind) describe() string {
	switch {
	case a.now.Failure == adminapi.Forbidden:
		return fmt.Sprintf("they lack the permission to list and watch %s, of which the cluster has %d",
			a.kind.name, a.serves)
	case a.now.Err != "":
		return fmt.Sprintf("they can't list %s, of which the cluster has %d: %s", a.kind.name, a.serves, a.now.Err)
	}
	return fmt.Sprintf("they have not listed %s yet, of which the cluster has %d", a.kind.name, a.serves)
}

// awaitedPause is how often a link looks again at what its successor waits for.
const awaitedPause = 5 * time.Second

// maxStale is how long a successor watches its needed kinds beside a stale serving cluster before it replaces that
// cluster without all kinds.
const maxStale = time.Minute

// maxRevoked is like maxStale, for a serving cluster whose API server refuses its credentials. It is longer than the
// pause after which a cluster requests its kinds again, because an API server may refuse all credentials for a time.
const maxRevoked = 10 * time.Second

// awaitedKinds returns the kinds that a successor has to list first.
func awaitedKinds(serving, next cluster.Health) (list []awaitedKind) {
	for _, kind := range awaitables {
		before, now := resourceOf(serving, kind.resource), resourceOf(next, kind.resource)
		switch {
		case before.Objects == 0: // nothing can get lost
		case now.Synced:
		case now.Failure == adminapi.Absent:
		case now.Failure == adminapi.Forbidden && !kind.always:
		case before.Failure == adminapi.Forbidden && before.Lasts: // the serving cluster may not read it either
		default:
			list = append(list, awaitedKind{kind: kind, serves: before.Objects, now: now})
		}
	}
	return list
}

// watchesNeeded reports whether all needed kinds of a cluster are listed and watched.
func watchesNeeded(h cluster.Health) bool {
	return !slices.ContainsFunc(h.Resources, func(r adminapi.Resource) bool {
		return r.Needed && (!r.Synced || r.Err != "")
	})
}

// revoked reports whether the API server no longer accepts a cluster's credentials.
func revoked(h cluster.Health) bool {
	return slices.ContainsFunc(h.Resources, func(r adminapi.Resource) bool {
		return r.Failure == adminapi.Unauthorized && r.Lasts
	})
}

// overBudget reports whether the objects of a cluster take more memory than it may take.
func overBudget(h cluster.Health) bool {
	return slices.ContainsFunc(h.Resources, func(r adminapi.Resource) bool {
		return r.Failure == adminapi.OverBudget
	})
}

// resourceOf returns a kind's part of a cluster's health. It is the zero value if the cluster does not follow the kind.
func resourceOf(h cluster.Health, name string) *adminapi.Resource {
	for i := range h.Resources {
		if h.Resources[i].Resource == name {
			return &h.Resources[i]
		}
	}
	return &adminapi.Resource{Resource: name}
}

// awaitedError describes, for people, what a successor waits for.
func awaitedError(list []awaitedKind) error {
	var texts []string
	for _, a := range list {
		texts = append(texts, a.describe())
	}
	return errors.New(strings.Join(texts, "; ") + "; a replica that restarts serves the cluster without these objects")
}
