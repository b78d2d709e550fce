package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/kube"
	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// These constants limit the search for leftovers.
const (
	maxLeftClusters = 20 // maximum number of clusters whose mirrors are checked
	maxLeftServices = 10 // maximum number of Service names per cluster
	maxLinks        = 500
	// A Lease that is not renewed within its duration counts as free. A duration below minLease
	// counts as minLease, and one above maxLease as maxLease.
	minLease = 30 * time.Second
	maxLease = time.Hour
)

// Leftovers finds Services that Linkerd's service mirror created for clusters that are no longer
// linked. If a service mirror for the cluster is running, or a Link for the cluster exists, the
// cluster's Services are not leftovers.
type Leftovers struct {
	sources   decode.Sources // of the local cluster
	printable func(error) error
	namespace string // of Linkerd's multicluster extension
	now       func() time.Time

	mu   sync.Mutex
	held map[string]heldLease // by cluster
}

// heldLease is the state of a Lease, as observed by this replica. The renewal time of a Lease is
// compared only with its previous renewal time. A comparison with this replica's clock would give a
// wrong result if the holder's clock were wrong.
type heldLease struct {
	renewed metav1.MicroTime
	until   time.Time // according to this replica's clock
}

// NewLeftovers returns a Leftovers for the local cluster. The given namespace is the namespace of
// Linkerd's multicluster extension.
func NewLeftovers(client *kube.Client, namespace string) *Leftovers {
	return &Leftovers{
		sources: client.Sources, printable: client.Printable, namespace: namespace, now: time.Now,
		held: make(map[string]heldLease),
	}
}

// The find method returns the leftovers among the given mirrors of each cluster. If all mirrors
// belong to linked clusters, no requests are sent to the API server.
func (l *Leftovers) find(ctx context.Context, mirrors map[string][]federation.ServiceID, linked map[string]bool) (
	list []adminapi.LeftoverMirrors) {
	clusters := slices.DeleteFunc(slices.Sorted(maps.Keys(mirrors)), func(name string) bool { return linked[name] })
	if len(clusters) == 0 {
		return nil
	}
	clusters = clusters[:min(len(clusters), maxLeftClusters)]
	l.forget(clusters)
	links, err := l.links(ctx)
	for _, name := range clusters {
		owned := links[name]
		unknown := err
		if !owned && unknown == nil {
			owned, unknown = l.runs(ctx, name)
		}
		if owned {
			continue
		}
		one := adminapi.LeftoverMirrors{Cluster: name, Number: len(mirrors[name])}
		for _, id := range mirrors[name] {
			one.Services = append(one.Services, id.String())
		}
		slices.Sort(one.Services)
		one.Services = one.Services[:min(len(one.Services), maxLeftServices)]
		if unknown != nil {
			one.Unknown = l.printable(unknown).Error()
		}
		list = append(list, one)
	}
	return list
}

func (l *Leftovers) forget(except []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.held, func(cluster string, _ heldLease) bool { return !slices.Contains(except, cluster) })
}

// links returns the names of the clusters for which a Linkerd Link exists.
func (l *Leftovers) links(ctx context.Context) (clusters map[string]bool, err error) {
	clusters = make(map[string]bool)
	options := metav1.ListOptions{Limit: maxLinks}
	page, err := l.sources.Links(l.namespace).List(ctx, options, func(o *decode.Link, _ *decode.Refused) error {
		if o == nil {
			return errors.New("cannot decode a Link")
		}
		clusters[cmp.Or(o.Spec.TargetClusterName, o.Name)] = true
		clusters[o.Name] = true
		return nil
	})
	switch {
	case apierrors.IsNotFound(err): // the kind is not installed
		return clusters, nil
	case err == nil && page.Continue != "":
		err = fmt.Errorf("there are more than %d", maxLinks)
	}
	if err != nil {
		return nil, fmt.Errorf("namespace %s: cannot read Links: %w", l.namespace, err)
	}
	return clusters, nil
}

// The runs method reports whether a service mirror holds the Lease for mirroring the cluster. When
// this replica first sees a Lease, the Lease counts as held until its duration has passed.
func (l *Leftovers) runs(ctx context.Context, cluster string) (bool, error) {
	const prefix = "/apis/coordination.k8s.io/v1/namespaces/"
	path := prefix + url.PathEscape(l.namespace) + "/leases/service-mirror-write-" + url.PathEscape(cluster)
	var lease struct {
		Spec struct {
			HolderIdentity string            `json:"holderIdentity"`
			Duration       int32             `json:"leaseDurationSeconds"`
			RenewTime      *metav1.MicroTime `json:"renewTime"`
		} `json:"spec"`
	}
	err := l.sources.Document(ctx, path, &lease)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("namespace %s: cannot read Leases: %w", l.namespace, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	of := lease.Spec
	if err != nil || of.HolderIdentity == "" || of.RenewTime == nil {
		delete(l.held, cluster)
		return false, nil
	}
	now := l.now()
	before := l.held[cluster]
	if !before.renewed.Equal(of.RenewTime) {
		lasts := min(max(time.Duration(of.Duration)*time.Second, minLease), maxLease)
		l.held[cluster] = heldLease{*of.RenewTime, now.Add(lasts)}
		return true, nil
	}
	return now.Before(before.until), nil
}
