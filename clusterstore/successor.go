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

// A successor is a new Cluster that will replace the Cluster that currently serves a link, usually
// because the link's credentials have changed. If a successor took over before it had listed a kind
// of object, all objects of that kind would seem to have been deleted. For example, replacing a
// Cluster too early could remove endpoints, or stop proxies from treating ports as opaque. A
// successor completes its first sync only after it has listed each kind of object that the serving
// Cluster has cached. The admitSuccessor method decides when a successor stops waiting for kinds of
// objects that it has not listed yet.

// awaitable describes an optional kind of object that affects endpoints, and that a successor may
// have to list before it replaces the serving Cluster.
type awaitable struct {
	resource string // resource name in the health of a cluster
	name     string // resource name in permissions
	always   bool   // the successor waits even if the API server denies the list
}

var awaitables = []awaitable{
	{resource: "servers", name: "servers.policy.linkerd.io", always: true},
	{resource: "externalworkloads", name: "externalworkloads.workload.linkerd.io", always: true},
	{resource: "replicasets", name: "replicasets.apps"}, // without ReplicaSets and Jobs, only labels differ
	{resource: "jobs", name: "jobs.batch"},
}

type awaitedKind struct {
	kind   awaitable
	serves int                // number of objects in the serving cluster
	now    *adminapi.Resource // health of the kind in the successor
}

func (a *awaitedKind) describe() string {
	switch {
	case a.now.Failure == adminapi.Forbidden:
		return fmt.Sprintf(
			"the new credentials lack the permission to list and watch %s, but the cluster has %d of these objects",
			a.kind.name,
			a.serves,
		)
	case a.now.Err != "":
		return fmt.Sprintf(
			"the new credentials cannot list %s, but the cluster has %d of these objects: %s",
			a.kind.name,
			a.serves,
			a.now.Err,
		)
	}
	return fmt.Sprintf(
		"%s have not yet been listed with the new credentials, but the cache contains %d of these objects",
		a.kind.name,
		a.serves,
	)
}

// awaitedPause is the interval at which a link checks which kinds of objects its successor
// still has to list.
const awaitedPause = 5 * time.Second

// While the serving Cluster is stale, a successor waits at most maxStale for the kinds of objects
// that it has not listed yet. If the serving Cluster exceeds its memory cap, maxStale does not
// apply. Time counts toward maxStale and maxRevoked only while the successor watches all required
// kinds of objects.
const maxStale = time.Minute

// While the API server rejects the credentials of the serving Cluster, a successor waits at most
// maxRevoked for the kinds of objects that it has not listed yet. An API server may briefly reject
// all credentials, so maxRevoked is long enough for a Cluster to retry its requests at least once.
const maxRevoked = 10 * time.Second

// awaitedKinds returns the kinds of objects that a successor must list before it replaces the
// serving cluster.
func awaitedKinds(serving, next cluster.Health) (list []awaitedKind) {
	for _, kind := range awaitables {
		before := resourceOf(serving, kind.resource)
		now := resourceOf(next, kind.resource)
		switch {
		case before.Objects == 0: // there is nothing to lose
		case now.Synced:
		case now.Failure == adminapi.Absent:
		case now.Failure == adminapi.Forbidden && !kind.always:
		case before.Failure == adminapi.Forbidden && before.Lasts: // the serving cluster lacks the permission too
		default:
			list = append(list, awaitedKind{kind: kind, serves: before.Objects, now: now})
		}
	}
	return list
}

func watchesNeeded(h cluster.Health) bool {
	return !slices.ContainsFunc(h.Resources, func(r adminapi.Resource) bool {
		return r.Needed && (!r.Synced || r.Err != "")
	})
}

// The revoked function reports whether the API server has rejected a cluster's credentials for at
// least 10 s.
func revoked(h cluster.Health) bool {
	return slices.ContainsFunc(h.Resources, func(r adminapi.Resource) bool {
		return r.Failure == adminapi.Unauthorized && r.Lasts
	})
}

func overBudget(h cluster.Health) bool {
	return slices.ContainsFunc(h.Resources, func(r adminapi.Resource) bool {
		return r.Failure == adminapi.OverBudget
	})
}

// resourceOf returns the health of the resource with the given name. If the Health value has no
// entry for the resource, the result contains only the resource's name.
func resourceOf(h cluster.Health, name string) *adminapi.Resource {
	for i := range h.Resources {
		if h.Resources[i].Resource == name {
			return &h.Resources[i]
		}
	}
	return &adminapi.Resource{Resource: name}
}

func awaitedError(list []awaitedKind) error {
	var texts []string
	for _, a := range list {
		texts = append(texts, a.describe())
	}
	return errors.New(strings.Join(texts, "; ") + "; a restarted replica would serve the cluster without these objects")
}
