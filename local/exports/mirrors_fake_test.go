package exports

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"isthmus/clusterstore/decode"
	"isthmus/federation"
	"isthmus/local/exports/plan"
)

const after = time.Minute // UnlinkedAfter

var (
	errForbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "links"}, "", nil)
	errAbsent    = apierrors.NewNotFound(schema.GroupResource{Resource: "links"}, "")
)

// api is the API server of the local cluster.
type api struct {
	t      *testing.T
	client *fake.Clientset
	*Mirrors

	mu        sync.Mutex
	links     []*decode.Link
	linksErr  error
	leasesErr error
	changed   chan struct{} // closed and replaced when links change
	version   int
	requests  int
	reported  federation.Latest[struct{}] // set by each call to Changed
	selectors []string
}

// run runs f and Mirrors at the same time.
func run(t *testing.T, prepare func(a *api), f func(a *api)) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{t: t, client: fake.NewClientset(), changed: make(chan struct{})}
		a.client.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.requests++
			return a.leasesErr != nil, nil, a.leasesErr
		})
		a.Mirrors = NewMirrors(MirrorsOptions{
			Sources: decode.Sources{
				Links: func(string) decode.Source[*decode.Link] { return a },
				Serves: func(context.Context, string, ...schema.GroupVersion) (bool, error) {
					a.mu.Lock()
					defer a.mu.Unlock()
					a.requests++
					return a.linksErr != errAbsent, nil
				},
			},
			Leases:        a.client.CoordinationV1().Leases,
			Printable:     func(err error) error { return err },
			Namespace:     "mc",
			UnlinkedAfter: after,
			Changed:       func() { a.reported.Set(struct{}{}) },
			SelectorsChanged: func(cluster string) {
				a.Selectors(cluster)
				a.mu.Lock()
				a.selectors = append(a.selectors, cluster)
				a.mu.Unlock()
			},
		})
		prepare(a)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { a.Run(ctx); close(ended) }()
		synctest.Wait()
		f(a)
		stop()
		<-ended
	})
}

// List implements decode.Source, together with Watch.
func (a *api) List(
	_ context.Context, _ metav1.ListOptions, each func(*decode.Link, *decode.Refused) error,
) (metav1.ListMeta, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests++
	all := metav1.ListMeta{ResourceVersion: fmt.Sprint(a.version)}
	for _, l := range a.links {
		if err := each(new(*l), nil); err != nil {
			return all, err
		}
	}
	return all, a.linksErr
}

func (a *api) Watch(ctx context.Context, _ metav1.ListOptions) (decode.Events[*decode.Link], error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests++
	return &events{a, ctx, a.links, a.changed}, a.linksErr
}

type events struct {
	*api
	ctx     context.Context
	links   []*decode.Link
	changed chan struct{}
}

func (e *events) Close() error { return nil }

// Next returns the next change of a Link. Next ends the watch once Links cannot be read.
func (e *events) Next(each func(decode.Event[*decode.Link]) error) error {
	for {
		e.mu.Lock()
		now, changed, err := e.api.links, e.api.changed, e.linksErr
		e.mu.Unlock()
		if err != nil {
			return io.EOF
		}
		for _, l := range now {
			if !slices.Contains(e.links, l) {
				e.links = append(
					slices.DeleteFunc(slices.Clone(e.links), func(o *decode.Link) bool { return o.Name == l.Name }), l,
				)
				return each(decode.Event[*decode.Link]{Type: watch.Modified, Object: l})
			}
		}
		for i, l := range e.links {
			if !slices.Contains(now, l) {
				e.links = slices.Delete(slices.Clone(e.links), i, i+1)
				return each(decode.Event[*decode.Link]{Type: watch.Deleted, Object: l})
			}
		}
		select {
		case <-changed:
		case <-e.ctx.Done():
			return e.ctx.Err()
		}
	}
}

// renewed returns the clusters whose selectors have changed.
func (a *api) renewed() []string {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.selectors)
}

// reports returns a channel that is closed at the next call to Changed.
func (a *api) reports() <-chan struct{} {
	_, reported := a.reported.Get()
	return reported
}

// set changes the state of the API server, and waits until Mirrors has seen the change.
func (a *api) set(f func()) {
	a.mu.Lock()
	f()
	close(a.changed)
	a.changed = make(chan struct{})
	a.mu.Unlock()
	synctest.Wait()
}

// put creates or updates a Link in the newest version.
func (a *api) put(name, cluster, spec string) { a.putAs(decode.LinkVersions[0], name, cluster, spec) }

func (a *api) putAs(version schema.GroupVersion, name, cluster, spec string) {
	a.set(func() {
		a.version++
		text := fmt.Sprintf(
			`{"apiVersion":%q,"kind":"Link","metadata":{"namespace":"mc","name":%q,"resourceVersion":"%d"},`+
				`"spec":{"targetClusterName":%q%s}}`,
			version,
			name,
			a.version,
			cluster,
			spec,
		)
		l := new(decode.Link)
		if err := json.Unmarshal([]byte(text), l); err != nil {
			a.t.Fatal(text, err)
		}
		l.CreationTimestamp = metav1.NewTime(time.Now())
		for i, old := range a.links {
			if old.Name == name {
				l.CreationTimestamp = old.CreationTimestamp
				a.links = slices.Delete(slices.Clone(a.links), i, i+1)
			}
		}
		a.links = append(slices.Clone(a.links), l)
	})
}

func (a *api) drop(name string) {
	a.set(func() {
		a.links = slices.DeleteFunc(slices.Clone(a.links), func(l *decode.Link) bool { return l.Name == name })
	})
}

// hold renews a Lease every 2 s until d has passed. If d is zero, it releases the Lease.
func (a *api) hold(name string, d time.Duration) {
	leases := a.client.CoordinationV1().Leases("mc")
	for end := time.Now().Add(d); ; time.Sleep(2 * time.Second) {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "mc"}}
		l.Spec = coordinationv1.LeaseSpec{
			HolderIdentity:       ptr.To("mirror"),
			LeaseDurationSeconds: ptr.To[int32](30),
			RenewTime:            ptr.To(metav1.NowMicro()),
		}
		if d == 0 {
			l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = ptr.To(""), ptr.To[int32](1)
		}
		if _, err := leases.Update(context.Background(), l, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
			if _, err := leases.Create(context.Background(), l, metav1.CreateOptions{}); err != nil {
				a.t.Error(err)
			}
		}
		if time.Now().Add(2 * time.Second).After(end) {
			return
		}
	}
}

// cluster returns a cluster that Complete has filled in.
func (a *api) cluster(name string) plan.Cluster {
	c := plan.Cluster{Name: name}
	a.Complete(&c)
	return c
}

func (a *api) wantLease(name string, want plan.Lease) {
	a.t.Helper()
	if got := a.cluster(name).Lease; got != want {
		a.t.Errorf("the Lease of %q is %v, want %v", name, got, want)
	}
}

// wantSelected checks which labels the selectors of a cluster match. The string want lists the
// matches in the form "mirror KEY=VALUE; " and "federated KEY=VALUE; ".
func (a *api) wantSelected(cluster, want string) {
	a.t.Helper()
	s := a.Selectors(cluster)
	got := ""
	for _, label := range []string{
		"mirror.linkerd.io/exported=true", "mirror.linkerd.io/exported=remote-discovery",
		"mirror.linkerd.io/federated=member", "a=b",
	} {
		key, value, _ := strings.Cut(label, "=")
		of := map[string]string{key: value}
		if s.Mirror != nil && s.Mirror(of) {
			got += "mirror " + label + "; "
		}
		if s.Federated != nil && s.Federated(of) {
			got += "federated " + label + "; "
		}
	}
	if got != want {
		a.t.Errorf("the selectors of %s match %q, want %q", cluster, got, want)
	}
}

const usual = "mirror mirror.linkerd.io/exported=remote-discovery; federated mirror.linkerd.io/federated=member; "
