package copies

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore"
	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/kube"
	"isthmus/federation"
	"isthmus/internal/apisim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a local cluster with an API server in a synctest bubble.
type world struct {
	*apisim.Server
	t      *testing.T
	accept chan net.Conn
	closed chan struct{}
	lists  atomic.Int32 // of ConfigMaps
	refuse atomic.Int32 // number of writes of ConfigMaps that will fail
	lose   atomic.Int32 // number of writes of ConfigMaps whose responses will be lost
	keep   atomic.Bool  // makes deletions of ConfigMaps fail

	mu      sync.Mutex
	created []string     // names of the created ConfigMaps
	before  func(string) // called before a ConfigMap is created; may be nil
}

func (w *world) Accept() (net.Conn, error) {
	select {
	case conn := <-w.accept:
		return conn, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w *world) Close() error { return nil }

func (w *world) Addr() net.Addr { return &net.TCPAddr{} }

func (w *world) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case w.accept <- server:
		return client, nil
	case <-w.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// requests counts lists of ConfigMaps and makes requests for ConfigMaps fail.
type requests struct {
	http.RoundTripper
	*world
}

func (r requests) RoundTrip(request *http.Request) (*http.Response, error) {
	switch ofConfigMaps := strings.HasSuffix(request.URL.Path, "/configmaps"); {
	case ofConfigMaps && request.Method == http.MethodGet:
		r.lists.Add(1)
	case ofConfigMaps && request.Method == http.MethodPost && r.refuse.Add(-1) >= 0:
		return nil, errors.New("refused")
	case ofConfigMaps && request.Method == http.MethodPost && r.lose.Add(-1) >= 0:
		response, err := r.RoundTripper.RoundTrip(request)
		if err == nil {
			_ = response.Body.Close()
		}
		return nil, errors.New("lost")
	case request.Method == http.MethodDelete && r.keep.Load():
		return nil, errors.New("not deleted")
	}
	return r.RoundTripper.RoundTrip(request)
}

func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, accept: make(chan net.Conn), closed: make(chan struct{})}
		w.Server = apisim.StartAt(w, "local", nil)
		defer func() {
			close(w.closed)
			if err := w.Server.Close(); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}()
		w.TakeWrites(func(resource, _, name string) {
			w.mu.Lock()
			before := w.before
			w.mu.Unlock()
			if resource == "configmaps" && before != nil {
				before(name)
			}
		}, func(before, after runtime.Object) {
			if m, ok := after.(*corev1.ConfigMap); ok && before == nil {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.created = append(w.created, m.Name)
			}
		})
		f(t, w)
	})
}

// configMaps returns the ConfigMaps of the namespace linkerd by name.
func (w *world) configMaps() map[string]*corev1.ConfigMap {
	w.t.Helper()
	list, err := w.Objects("configmaps", "linkerd")
	if err != nil {
		w.t.Fatal(err)
	}
	all := make(map[string]*corev1.ConfigMap)
	for _, o := range list {
		m := o.(*corev1.ConfigMap)
		all[m.Name] = m
	}
	return all
}

// copied checks which clusters have copies, as CLUSTER:PARTS or CLUSTER:PARTS/COUNT if parts are
// missing.
func (w *world) copied(want ...string) {
	w.t.Helper()
	parts := make(map[string]int)
	counts := make(map[string]int)
	for _, m := range w.configMaps() {
		var h head
		if err := json.Unmarshal([]byte(m.Annotations[headAnnotation]), &h); err != nil {
			w.t.Error(err)
		}
		id := m.Labels[clusterLabel] + "@" + m.Labels[generationLabel]
		parts[id]++
		counts[id] = h.Parts
	}
	var got []string
	for id, n := range parts {
		name, _, _ := strings.Cut(id, "@")
		text := fmt.Sprintf("%s:%d", name, n)
		if counts[id] != n {
			text += fmt.Sprint("/", counts[id])
		}
		got = append(got, text)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		w.t.Errorf("%v: copies %v, want %v", time.Now().Format(time.TimeOnly), got, want)
	}
}

// writes returns the number of ConfigMaps that were created since the last call.
func (w *world) writes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.created)
	w.created = nil
	return n
}

type replica struct {
	*Copies
	logs *observer.ObservedLogs
	stop func()

	mu      sync.Mutex
	links   map[federation.ClusterName]clusterstore.LinkedCache
	unknown bool // whether links may be missing from the list
}

func (w *world) replica(name string, maxAge time.Duration) *replica {
	w.t.Helper()
	config := &rest.Config{Host: "http://local.example", Dial: w.dial}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return requests{next, w} })
	client, err := kube.New(federation.Local, config, nil)
	if err == nil {
		err = client.AddTyped()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	core, logs := observer.New(zapcore.InfoLevel)
	r := &replica{
		Copies: New(
			Options{Client: client, Namespace: "linkerd", Identity: name, MaxAge: maxAge, Log: zap.New(core)},
		),
		logs:  logs,
		links: make(map[federation.ClusterName]clusterstore.LinkedCache),
	}
	r.SetCaches(r.caches)
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.Run(ctx); err != nil {
			w.t.Error(err)
		}
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		<-done
		client.Close()
	})
	return r
}

func (r *replica) caches() (list []clusterstore.LinkedCache, listed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.links)), !r.unknown
}

func withReplica(t *testing.T, f func(t *testing.T, w *world, a *replica)) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.replica("a", day)
		defer a.stop()
		f(t, w, a)
	})
}

// set sets the state of a link. If the link is ready or stale, the replica caches the cluster with
// the given data.
func (r *replica) set(name federation.ClusterName, state cluster.State, data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := clusterstore.LinkedCache{State: state, Since: time.Now()}
	l.Cluster = name
	l.Server = "api.example"
	if state == cluster.Stale {
		l.Lost = l.Since
	}
	if state == cluster.Stale || state == cluster.Ready {
		l.Copy = func(limit int) (map[string][]byte, error) {
			if len(data) > limit {
				return nil, errors.New("its copy would be larger than 16 MiB")
			}
			return map[string][]byte{"services": []byte("services of " + name), "pods": data}, nil
		}
	}
	r.links[name] = l
}

func (r *replica) forget(name federation.ClusterName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.links, name)
}

// setUnknown sets whether links may be missing from the list.
func (r *replica) setUnknown(unknown bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unknown = unknown
}

// missing checks the clusters without a copy and the reasons.
func (r *replica) missing(t *testing.T, want string) {
	t.Helper()
	var got []string
	for _, m := range r.Status().Missing {
		got = append(got, m.Cluster+": "+m.Reason)
	}
	if s := strings.Join(got, "; "); s != want {
		t.Errorf("missing %q, want %q", s, want)
	}
}

// random returns incompressible data.
func random(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.Read(data) // never fails
	return data
}

const day = 24 * time.Hour

// wait advances the clock, and waits until all goroutines are blocked.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestOncePerOutage checks that a cluster is copied once per outage for any number of
// replicas. The copy is deleted after the outage.
func TestOncePerOutage(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.replica("a", day), w.replica("b", day)
		defer a.stop()
		defer b.stop()
		data := random(2 * maxPart)
		for _, r := range []*replica{a, b} {
			r.set("north", cluster.Ready, nil)
			r.set("east", cluster.Ready, data)
		}
		wait(time.Minute)
		a.set("east", cluster.Stale, data)
		wait(3 * time.Second)
		b.set("east", cluster.Stale, data)
		wait(lostFor - 4*time.Second)
		w.copied()
		wait(3 * time.Second)
		w.copied("east:3")
		found, err := b.Read(t.Context(), "east")
		if err != nil || string(found.Lists["pods"]) != string(data) ||
			string(found.Lists["services"]) != "services of east" {
			t.Fatalf("read: %v", err)
		}
		if lost := time.Since(found.Lost); found.Server != "api.example" || lost < lostFor ||
			lost > lostFor+5*time.Second {
			t.Errorf("read %v, %v", found.Server, lost)
		}
		wait(time.Hour)
		w.copied("east:3")
		if n := w.writes(); n != 3 {
			t.Errorf("%d ConfigMaps were written", n)
		}
		if found, err := b.Read(t.Context(), "north"); found != nil || err != nil {
			t.Errorf("read %v, %v", found, err)
		}

		a.set("east", cluster.Ready, data)
		b.set("east", cluster.Ready, data)
		wait(readyFor)
		w.copied("east:3")
		wait(readyFor)
		w.copied()
		a.missing(t, "")
	})
}

// TestSecondOutage checks that a cluster is copied again if it is lost before its copy is deleted.
func TestSecondOutage(t *testing.T) {
	withReplica(t, func(t *testing.T, w *world, a *replica) {
		a.set("east", cluster.Stale, []byte("old"))
		wait(2 * time.Minute)
		a.set("east", cluster.Ready, []byte("new"))
		wait(readyFor / 2)
		a.set("east", cluster.Stale, []byte("new"))
		wait(lostFor + 5*time.Second)
		if found, err := a.Read(t.Context(), "east"); err != nil || string(found.Lists["pods"]) != "new" {
			t.Errorf("read %v", err)
		}
		wait(time.Minute)
		w.copied("east:1")
	})
}

// TestFlapping checks that a cluster that is repeatedly lost and recovered is copied at most once a
// minute.
func TestFlapping(t *testing.T) {
	withReplica(t, func(t *testing.T, w *world, a *replica) {
		for range 60 {
			a.set("east", cluster.Stale, nil)
			wait(20 * time.Second)
			a.set("east", cluster.Ready, nil)
			wait(10 * time.Second)
		}
		if n := w.writes(); n > 31 {
			t.Errorf("%d copies in 30 minutes", n)
		}
	})
}

// TestLeaderDies checks a leader that dies between two ConfigMaps. Another replica with a cache of
// the cluster writes a complete generation. Replicas that start meanwhile write nothing.
func TestLeaderDies(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.replica("a", day), w.replica("b", day)
		defer a.stop()
		defer b.stop()
		data := random(5 * maxPart)
		dead := make(chan struct{})
		w.before = func(name string) {
			if strings.HasSuffix(name, "-03") && w.writes() == 2 {
				close(dead)
			}
		}
		a.set("east", cluster.Stale, data)
		<-dead
		go a.stop()
		b.set("east", cluster.Stale, data)
		c, d := w.replica("c", day), w.replica("d", day)
		defer c.stop()
		defer d.stop()
		c.set("east", cluster.Unreachable, nil)
		d.set("east", cluster.Unreachable, nil)
		wait(3 * time.Minute)
		w.copied("east:6")
		for _, r := range []*replica{c, d} {
			if found, err := r.Read(t.Context(), "east"); err != nil || len(found.Lists["pods"]) != len(data) {
				t.Errorf("read: %v", err)
			}
		}
		w.writes()
		wait(time.Hour)
		if n := w.writes(); n != 0 {
			t.Errorf("%d more ConfigMaps were written", n)
		}
	})
}

// TestOneReplicaLostIt checks that a copy stays while some replicas can reach the cluster and
// others cannot.
func TestOneReplicaLostIt(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.replica("a", day), w.replica("b", day)
		defer a.stop()
		defer b.stop()
		a.set("east", cluster.Ready, nil)
		b.set("east", cluster.Ready, nil)
		wait(5 * time.Minute)
		a.set("east", cluster.Stale, nil)
		wait(time.Hour)
		w.copied("east:1")
		if n := w.writes(); n != 1 {
			t.Errorf("%d ConfigMaps were written", n)
		}
		a.set("east", cluster.Ready, nil)
		wait(2 * time.Minute)
		w.copied()
	})
}

func TestRemoved(t *testing.T) {
	const keepFor = time.Hour // a day would need 24 times as many renewals of the Lease
	for name, end := range map[string]func(w *world, a *replica){
		"unlinked": func(w *world, a *replica) {
			a.forget("east")
			wait(time.Minute)
		},
		"too old": func(w *world, a *replica) {
			wait(keepFor - 5*time.Minute)
			w.copied("east:1")
			wait(5 * time.Minute)
			if n := w.writes(); n != 1 {
				w.t.Errorf("%d ConfigMaps were written", n)
			}
		},
		"switched off": func(w *world, a *replica) {
			a.stop()
			off := w.replica("off", 0)
			defer off.stop()
			off.set("east", cluster.Stale, nil)
			wait(time.Minute)
			if !off.Status().Off {
				w.t.Error("the status does not show that copies are disabled")
			}
		},
		"damaged annotation": func(w *world, a *replica) {
			a.stop()
			for _, m := range w.configMaps() {
				m.Annotations[headAnnotation] = "{"
				if err := w.Put(m); err != nil {
					w.t.Fatal(err)
				}
			}
			other := w.replica("b", day)
			defer other.stop()
			other.set("east", cluster.Unreachable, nil)
			wait(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				a := w.replica("a", keepFor)
				defer a.stop()
				a.set("east", cluster.Stale, nil)
				wait(time.Minute)
				w.copied("east:1")
				end(w, a)
				w.copied()
			})
		})
	}
}

// TestNotRemoved checks that no copy is deleted before all links are known. ConfigMaps of others
// are never deleted.
func TestNotRemoved(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.replica("a", day)
		a.set("east", cluster.Stale, nil)
		wait(time.Minute)
		a.stop()
		for _, m := range []*corev1.ConfigMap{{}, {}} {
			m.Namespace = "linkerd"
			m.Name = "isthmus-cache-config"
			if err := w.Put(m); err != nil {
				t.Fatal(err)
			}
			m.Name = "linkerd-config"
			m.Labels = map[string]string{clusterLabel: "east"}
			if err := w.Put(m); err != nil {
				t.Fatal(err)
			}
		}
		b := w.replica("b", day)
		defer b.stop()
		b.setUnknown(true)
		wait(10 * time.Minute)
		if n := len(w.configMaps()); n != 3 {
			t.Errorf("%d ConfigMaps", n)
		}
		b.setUnknown(false)
		wait(time.Minute)
		if all := w.configMaps(); len(all) != 2 || all["linkerd-config"] == nil ||
			all["isthmus-cache-config"] == nil {
			t.Errorf("ConfigMaps %v", slices.Sorted(maps.Keys(all)))
		}
	})
}

// TestLinksUnknownToLeader checks a leader whose list of links became incomplete before its
// election. The leader writes and deletes nothing.
func TestLinksUnknownToLeader(t *testing.T) {
	withReplica(t, func(t *testing.T, w *world, a *replica) {
		a.set("east", cluster.Stale, nil)
		wait(time.Minute)
		w.copied("east:1")
		w.Misbehave(apisim.Faults{Forbidden: []string{"leases"}})
		a.forget("east")
		a.set("north", cluster.Stale, nil)
		wait(lostFor + 2*time.Second)
		if a.Status().LeaseError == "" {
			t.Fatal("the replica does not try to become the leader")
		}
		a.setUnknown(true)
		w.Misbehave(apisim.Faults{})
		wait(10 * time.Minute)
		w.copied("east:1")
		a.setUnknown(false)
		wait(time.Minute)
		w.copied("north:1")
	})
}

// TestBounds checks the limits of one copy and of all copies together. At the limit, a copy can
// still replace the earlier copy of its cluster. A rejected copy is written once there is room.
func TestBounds(t *testing.T) {
	withReplica(t, func(t *testing.T, w *world, a *replica) {
		large := random(maxCopy - 1000)
		for i := range 4 {
			a.set(federation.ClusterName(fmt.Sprint("large-", i)), cluster.Stale, large)
		}
		wait(2 * time.Minute)
		if n := w.writes(); n != 4*maxParts {
			t.Errorf("%d ConfigMaps were written, want %d", n, 4*maxParts)
		}

		a.set("large-0", cluster.Ready, large)
		wait(time.Second)
		a.set("large-0", cluster.Stale, large)
		wait(2 * time.Minute)
		a.missing(t, "")
		if n := w.writes(); n != maxParts {
			t.Errorf("%d ConfigMaps were written again, want %d", n, maxParts)
		}
		w.copied("large-0:19", "large-1:19", "large-2:19", "large-3:19")

		a.set("huge", cluster.Stale, random(maxCopy+1))
		a.set("large-4", cluster.Stale, large)
		wait(2 * time.Minute)
		status := a.Status()
		if len(status.Missing) != 2 || status.Missing[0].Reason != "its copy would be larger than 16 MiB" ||
			status.Missing[1].Reason != "all copies together would be larger than 64 MiB" {
			t.Errorf("missing %+v", status.Missing)
		}
		if n := testutil.ToFloat64(a.Copies.Missing()); n != 2 {
			t.Errorf("the metric counts %v missing clusters", n)
		}
		if n := w.writes(); n != 0 {
			t.Errorf("%d ConfigMaps were written beyond the limit", n)
		}

		for i := range 4 {
			a.forget(federation.ClusterName(fmt.Sprint("large-", i)))
		}
		wait(15 * time.Minute)
		a.missing(t, "huge: its copy would be larger than 16 MiB")
		w.copied("large-4:19")
	})
}

func TestForbidden(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Misbehave(apisim.Faults{Forbidden: []string{"configmaps"}})
		a := w.replica("a", day)
		defer a.stop()
		a.set("east", cluster.Stale, nil)
		wait(10 * time.Minute)
		if e := a.Status().Error; !strings.Contains(e, "forbidden") {
			t.Errorf("error %q", e)
		}
		if _, err := a.Read(t.Context(), "east"); err == nil || !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("read: %v", err)
		}
		if n := w.lists.Load(); n > 12 {
			t.Errorf("%d lists in ten minutes", n)
		}
		if n := a.logs.FilterLevelExact(zapcore.WarnLevel).Len(); n != 1 {
			t.Errorf("%d warnings", n)
		}
		w.Misbehave(apisim.Faults{})
		wait(failedPause + time.Minute)
		w.copied("east:1")
		if e := a.Status().Error; e != "" {
			t.Errorf("error %q", e)
		}
	})
}

// TestNoLease checks that nothing is written while the Lease cannot be used. The status must report
// the problem.
func TestNoLease(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Misbehave(apisim.Faults{Forbidden: []string{"leases"}})
		a := w.replica("a", day)
		defer a.stop()
		a.set("east", cluster.Stale, nil)
		wait(5 * time.Minute)
		w.copied()
		a.missing(t, "east: no replica could become the leader and write the copy")
		if e := a.Status().LeaseError; !strings.Contains(e, "forbidden") {
			t.Errorf("error %q", e)
		}
		w.Misbehave(apisim.Faults{})
		wait(time.Minute)
		w.copied("east:1")
		a.missing(t, "")
	})
}

func TestUnusable(t *testing.T) {
	head := func(from, to string) func(*world, []*corev1.ConfigMap) {
		return func(_ *world, parts []*corev1.ConfigMap) {
			for _, m := range parts {
				m.Annotations[headAnnotation] = strings.Replace(m.Annotations[headAnnotation], from, to, 1)
			}
		}
	}
	for name, x := range map[string]struct {
		damage func(w *world, parts []*corev1.ConfigMap) // damages a copy with two ConfigMaps
		maxAge time.Duration
		want   string
	}{
		"damaged": {func(_ *world, parts []*corev1.ConfigMap) { parts[1].BinaryData[partKey][0]++ }, day, "damaged"},
		"shorter": {func(_ *world, parts []*corev1.ConfigMap) { parts[1].BinaryData = nil }, day, "damaged"},
		"swapped": {func(_ *world, parts []*corev1.ConfigMap) {
			parts[0].BinaryData, parts[1].BinaryData = parts[1].BinaryData, parts[0].BinaryData
		}, day, "damaged"},
		"incomplete": {func(w *world, parts []*corev1.ConfigMap) {
			if err := w.Delete(parts[1]); err != nil {
				w.t.Error(err)
			}
			parts[1].Namespace = "other"
		}, day, "incomplete"},
		"of two generations": {func(_ *world, parts []*corev1.ConfigMap) {
			parts[1].Annotations[headAnnotation] += " "
		}, day, "incomplete"},
		"too old":        {func(*world, []*corev1.ConfigMap) {}, 2 * time.Minute, "--cache-max-age"},
		"no annotation":  {head("{", ""), day, "annotation isthmus.io/cache can't be read"},
		"negative size":  {head(`"bytes":`, `"bytes":-`), day, "annotation isthmus.io/cache can't be read"},
		"many bytes":     {head(`"bytes":`, `"bytes":1000`), day, "annotation isthmus.io/cache can't be read"},
		"many parts":     {head(`"parts":2`, `"parts":1000000000`), day, "annotation isthmus.io/cache can't be read"},
		"negative parts": {head(`"parts":2`, `"parts":-2`), day, "incomplete"},
		"other cluster": {
			head(`"cluster":"east"`, `"cluster":"north"`), day, "annotation isthmus.io/cache can't be read",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				a := w.replica("a", day)
				a.set("east", cluster.Stale, random(maxPart))
				wait(5 * time.Minute)
				a.stop()
				all := w.configMaps()
				var parts []*corev1.ConfigMap
				for _, name := range slices.Sorted(maps.Keys(all)) {
					parts = append(parts, all[name])
				}
				x.damage(w, parts)
				for _, m := range parts {
					if err := w.Put(m); err != nil {
						t.Fatal(err)
					}
				}
				b := w.replica("b", x.maxAge)
				defer b.stop()
				b.set("east", cluster.Pending, nil)
				found, err := b.Read(t.Context(), "east")
				if found != nil || err == nil || !strings.Contains(err.Error(), x.want) || !isUnusable(err) {
					t.Errorf("read: %v", err)
				}
			})
		})
	}
}

// TestReadWhileWriting checks that Read waits for a copy that is being written, even if the older
// copies cannot be used.
func TestReadWhileWriting(t *testing.T) {
	withReplica(t, func(t *testing.T, w *world, a *replica) {
		wait(time.Hour)
		put := func(list ...*corev1.ConfigMap) {
			for _, m := range list {
				m.Namespace = "linkerd"
				if err := w.Put(m); err != nil {
					t.Fatal(err)
				}
			}
		}
		c := &clusterstore.Copy{Lists: map[string][]byte{"pods": random(2 * maxPart)}}
		c.CopiedCluster = clusterstore.CopiedCluster{
			Cluster: "east", Server: "api", Lost: time.Now().Add(-10 * time.Minute),
		}
		_, incomplete := pack(c, time.Now().Add(-5*time.Minute))
		_, damaged := pack(c, time.Now().Add(-2*time.Minute))
		_, list := pack(c, time.Now())
		damaged[1].BinaryData[partKey] = []byte("x")
		put(incomplete[0])
		put(damaged...)
		put(list[:2]...)
		if _, err := a.Read(t.Context(), "east"); err == nil || isUnusable(err) {
			t.Errorf("read: %v", err)
		}
		put(list[2])
		if found, err := a.Read(t.Context(), "east"); err != nil || len(found.Lists["pods"]) != 2*maxPart {
			t.Errorf("read: %v", err)
		}
	})
}

// put stores the first ConfigMaps of a generation of the cluster east. Times are relative to now.
func (w *world) put(server string, written, lost time.Duration, data []byte, parts int) {
	w.t.Helper()
	c := &clusterstore.Copy{Lists: map[string][]byte{"pods": data}}
	c.CopiedCluster = clusterstore.CopiedCluster{Cluster: "east", Server: server, Lost: time.Now().Add(lost)}
	_, list := pack(c, time.Now().Add(written))
	for _, m := range list[:parts] {
		m.Namespace = "linkerd"
		if err := w.Put(m); err != nil {
			w.t.Fatal(err)
		}
	}
}

// TestFuture checks that a copy with a time more than a minute in the future is neither read nor
// stored.
func TestFuture(t *testing.T) {
	for name, x := range map[string]struct {
		written, lost time.Duration // relative to now
		parts         int           // number of stored ConfigMaps, out of two
	}{
		"incomplete": {written: readyFor + time.Hour, parts: 1},
		"complete":   {written: 100 * 365 * day, lost: 100 * 365 * day, parts: 2},
		"written":    {written: 2 * time.Hour, parts: 2},
		"lost":       {lost: 2 * time.Hour, parts: 2},
	} {
		t.Run(name, func(t *testing.T) {
			withReplica(t, func(t *testing.T, w *world, a *replica) {
				a.set("east", cluster.Ready, nil)
				w.put("api.example", x.written, x.lost, random(maxPart), x.parts)
				_, err := a.Read(t.Context(), "east")
				if err == nil || !isUnusable(err) || !strings.Contains(err.Error(), "in the future") {
					t.Errorf("read: %v", err)
				}
				wait(time.Minute)
				w.copied()
			})
		})
	}
}

// TestFutureWhileStale checks that a copy from the future neither counts as the copy of an outage
// nor delays the copy. The clocks of replicas may differ by less than a minute.
func TestFutureWhileStale(t *testing.T) {
	for _, server := range []string{"api.example", "other.example"} {
		t.Run(server, func(t *testing.T) {
			withReplica(t, func(t *testing.T, w *world, a *replica) {
				w.put(server, 2*time.Hour, 0, []byte("future"), 1)
				a.set("east", cluster.Stale, []byte("good"))
				wait(2 * time.Minute)
				w.copied("east:1")
				if found, err := a.Read(t.Context(), "east"); err != nil || string(found.Lists["pods"]) != "good" {
					t.Errorf("read: %v, %v", found, err)
				}
				a.missing(t, "")
			})
		})
	}
	withReplica(t, func(t *testing.T, w *world, a *replica) {
		w.put("api.example", maxClockDifference-time.Second, maxClockDifference-time.Second, []byte("near"), 1)
		if found, err := a.Read(t.Context(), "east"); err != nil || string(found.Lists["pods"]) != "near" {
			t.Errorf("read: %v, %v", found, err)
		}
		a.set("east", cluster.Stale, nil)
		wait(10 * time.Minute)
		if n := w.writes(); n != 0 {
			t.Errorf("%d ConfigMaps were written", n)
		}
		w.copied("east:1")
	})
}

// TestLongServer checks that a head that is too long for readers is not written.
func TestLongServer(t *testing.T) {
	withReplica(t, func(t *testing.T, w *world, a *replica) {
		a.set("east", cluster.Stale, nil)
		a.mu.Lock()
		l := a.links["east"]
		l.Server = strings.Repeat("x", maxHead)
		a.links["east"] = l
		a.mu.Unlock()
		wait(time.Minute)
		a.missing(t, "east: the address of the API server or the identity of the cluster is too long")
		w.copied()
	})
}

// TestOutageEndsBeforeWrite checks that a cluster is not copied if its outage ends while the leader
// writes the copy of another cluster.
func TestOutageEndsBeforeWrite(t *testing.T) {
	withReplica(t, func(t *testing.T, w *world, a *replica) {
		large := random(maxCopy - 1000)
		var first string // name of the first ConfigMap
		w.mu.Lock()
		w.before = func(name string) {
			if first != "" {
				return
			}
			first = name
			other := federation.ClusterName("east")
			if strings.HasPrefix(name, namePrefix+"east") {
				other = "north"
			}
			a.set(other, cluster.Ready, large)
		}
		w.mu.Unlock()
		a.set("east", cluster.Stale, large)
		a.set("north", cluster.Stale, large)
		wait(time.Minute)
		if all := w.configMaps(); len(all) != maxParts || all[first] == nil {
			t.Errorf("%d ConfigMaps, want %d, with %s", len(all), maxParts, first)
		}
	})
}

// TestSlowWrites checks copies with an API server that is too slow. The leader retries with
// increasing delays and deletes the incomplete copies.
func TestSlowWrites(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var slow atomic.Bool
		slow.Store(true)
		w.before = func(string) {
			if slow.Load() {
				time.Sleep(requestTimeout / 2)
			}
		}
		a := w.replica("a", day)
		defer a.stop()
		a.set("east", cluster.Stale, random(maxCopy-1000))
		wait(time.Hour)
		if n := len(w.configMaps()); n > 2*maxParts {
			t.Errorf("%d ConfigMaps remain", n)
		}
		a.missing(t, "east: the API server did not store the copy within 1m0s")
		slow.Store(false)
		wait(maxRetry + 2*time.Minute)
		w.copied(fmt.Sprintf("east:%d", maxParts))
	})
}

// TestTwoAddresses checks that replicas with different addresses of the same cluster do not replace
// each other's copy.
func TestTwoAddresses(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.replica("a", day), w.replica("b", day)
		defer a.stop()
		defer b.stop()
		for r, address := range map[*replica]string{a: "api.example", b: "other.example"} {
			r.set("east", cluster.Stale, nil)
			r.mu.Lock()
			l := r.links["east"]
			l.Identity = "uid"
			l.Server = address
			r.links["east"] = l
			r.mu.Unlock()
		}
		wait(time.Hour)
		w.copied("east:1")
		if n := w.writes(); n != 1 {
			t.Errorf("%d ConfigMaps were written", n)
		}
	})
}

// TestRepeatedWrite checks that single failed writes do not fail a copy. A failed write may have
// stored its ConfigMap.
func TestRepeatedWrite(t *testing.T) {
	withReplica(t, func(t *testing.T, w *world, a *replica) {
		w.before = func(string) { w.refuse.Store(1) }
		w.lose.Store(1)
		a.set("east", cluster.Stale, random(2*maxPart))
		wait(lostFor + 15*time.Second)
		w.copied("east:3")
		a.missing(t, "")
		if n := a.logs.FilterLevelExact(zapcore.WarnLevel).Len(); n != 0 {
			t.Errorf("%d warnings", n)
		}
	})
}

// TestBoundsAfterFailures checks that incomplete copies count toward the limit of all copies until
// they are deleted.
func TestBoundsAfterFailures(t *testing.T) {
	withReplica(t, func(t *testing.T, w *world, a *replica) {
		w.keep.Store(true)
		w.before = func(name string) {
			if strings.HasSuffix(name, fmt.Sprint("-", maxParts-1)) {
				w.refuse.Store(maxAttempts)
			}
		}
		large := random(maxCopy - 1000)
		for i := range 5 {
			a.set(federation.ClusterName(fmt.Sprint("large-", i)), cluster.Stale, large)
		}
		for range 2 {
			wait(time.Minute)
			if n := len(w.configMaps()); n > maxAll/maxPart+1 {
				t.Fatalf("%d ConfigMaps", n)
			}
		}
		for i := range 4 {
			a.forget(federation.ClusterName(fmt.Sprint("large-", i)))
		}
		w.mu.Lock()
		w.before = nil
		w.mu.Unlock()
		w.keep.Store(false)
		wait(maxRetry + 2*time.Minute)
		w.copied(fmt.Sprintf("large-4:%d", maxParts))
		a.missing(t, "")
	})
}

// TestRefusedWrite checks that a cluster is copied again after a pause if a write fails repeatedly.
// The incomplete copy is deleted first.
func TestRefusedWrite(t *testing.T) {
	withReplica(t, func(t *testing.T, w *world, a *replica) {
		w.before = func(name string) {
			if strings.HasSuffix(name, "-02") {
				w.refuse.Store(maxAttempts) // the third write
			}
		}
		a.set("east", cluster.Stale, random(2*maxPart))
		wait(lostFor + 8*time.Second)
		w.copied("east:2/3")
		if all := a.Status().Missing; len(all) != 1 || !strings.Contains(all[0].Reason, "refused") {
			t.Errorf("missing %+v", all)
		}
		w.mu.Lock()
		w.before = nil
		w.mu.Unlock()
		wait(firstRetry + 5*time.Second)
		w.copied("east:3")
		a.missing(t, "")
		wait(2 * time.Minute)
		w.copied("east:3")
	})
}

// TestStopDuringList checks that a list that is canceled because the replica stops is not reported
// as a problem.
func TestStopDuringList(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.replica("a", day)
		a.stop()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if !a.plan(ctx, nil, true).empty() || a.Status().Error != "" || a.logs.Len() > 0 {
			t.Errorf("error %q, %d messages", a.Status().Error, a.logs.Len())
		}
	})
}
