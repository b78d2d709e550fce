package clusterstore

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"

	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/kube"
	"isthmus/federation"
)

// exportWorld is a Store in a bubble that caches exports.
type exportWorld struct {
	*env
	own      *fake.Clientset
	selector map[string]string // the label of exports by cluster name; the default is export
}

// inExports runs a test with a Store that reads the given linked clusters and a local cluster. own
// has the objects of the local cluster. Services with the label export are exported.
func inExports(t *testing.T, apis map[string]*fake.Clientset, f func(*exportWorld), own ...runtime.Object) {
	inBubble(t, func(e *env) {
		x := &exportWorld{env: e, own: fake.NewClientset(own...), selector: make(map[string]string)}
		o := &ExportOptions{
			Hooks: func(name string) cluster.ExportHooks {
				return cluster.ExportHooks{Service: x.hook(name), Listed: anything}
			},
			Settings: func(annotations map[string]string) (any, []string) {
				return annotations["isthmus.io/exports"], nil
			},
		}
		e.onFakes(apis)
		ownCluster := x.newOwn(o)
		e.store.exports = o
		e.store.opts.Exports = o
		e.store.opts.LocalLink = ownCluster
		e.store.exportsChanged = ownCluster.link.env.exportsChanged
		ctx, stop := context.WithCancel(e.t.Context())
		done := make(chan struct{})
		go func() { defer close(done); ownCluster.Run(ctx) }()
		x.pass(time.Second)
		f(x)
		stop()
		<-done
	})
}

func anything(any) bool { return true }

// hook returns a hook that returns the name of each exported Service of a cluster.
func (x *exportWorld) hook(name string) func(*corev1.Service) any {
	return func(o *corev1.Service) any {
		x.mu.Lock()
		key := cmp.Or(x.selector[name], "export")
		x.mu.Unlock()
		if o.Labels[key] == "" {
			return nil
		}
		return o.Name
	}
}

func (x *exportWorld) newOwn(o *ExportOptions) *LocalLink {
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		x.t.Fatal(err)
	}
	namespace := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: "shop"},
	}
	client := &kube.Client{Sources: fakeSources(x.own, metadatafake.NewSimpleMetadataClient(scheme, namespace))}
	withoutCustom(&client.Sources)
	made, err := NewLocalLink(LocalLinkOptions{
		Rules: cluster.Rules{
			EndpointSlices: true,
		}, Table: x.table, Log: zap.NewNop(), Report: func(cluster.Change) {}, Exports: o,
		SetLink: func(federation.Link) {}, Prepare: func(context.Context) {},
		Create: func(cfg cluster.Config) (Cluster, error) {
			cfg.Client = client
			return cluster.NewLocal(cfg, cluster.LocalConfig{
				ServiceChanged: func(federation.ServiceID) {}, NodeChanged: func(string, string, bool) {},
				ProfileChanged: func(cluster.Topic, time.Time) {},
			})
		},
	})
	if err != nil {
		x.t.Fatal(err)
	}
	return made
}

// expect checks the names that each cluster exports.
func (x *exportWorld) expect(want ...string) {
	x.t.Helper()
	synctest.Wait()
	all, ok := x.store.Exports()
	if !ok {
		x.t.Fatal("link Secrets are not listed")
	}
	var got []string
	for _, c := range all {
		text := c.Name + ":"
		if c.Exports == nil {
			text += " unseen"
			got = append(got, text)
			continue
		}
		if settings, ok := c.Settings.(string); ok && settings != "" {
			text += " " + settings
		}
		var names []string
		for _, e := range c.Exports.List {
			names = append(names, " "+e.Service.(string))
		}
		slices.Sort(names)
		got = append(got, text+strings.Join(names, ""))
	}
	if !slices.Equal(got, want) {
		x.t.Errorf("exports %q, want %q", got, want)
	}
}

// reported checks that change is followed by a report.
func (x *exportWorld) reported(change func()) {
	x.t.Helper()
	changed := x.store.ExportsChanged()
	change()
	x.pass(5 * time.Second)
	if !closed(changed) {
		x.t.Error("the change is not reported")
	}
}

func exported(name string, labels ...string) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"export": "1"}},
	}
	for _, key := range labels {
		s.Labels[key] = "1"
	}
	return s
}

// TestStoreExports checks the exports of a local and a linked cluster. It begins before the first
// list and ends after the removal of the link.
func TestStoreExports(t *testing.T) {
	east := fake.NewClientset(exported("api", "other"), exported("web"))
	inExports(t, map[string]*fake.Clientset{"t1": east, "t2": east}, func(x *exportWorld) {
		x.expect(": web")
		now, _ := x.store.Exports()
		plain := federation.ServiceID{Namespace: "shop", Name: "plain"}
		if own := now[0].Exports; !own.Unlisted(plain) || !own.Namespaces["shop"] {
			t.Errorf("%+v", own)
		}
		x.reported(func() { x.put(secret("e", "east", "t1", 5)) })
		x.expect(": web", "east: api web")
		now, _ = x.store.Exports()
		if c := now[1]; c.Domain != "cluster.test" ||
			!c.Linked.Equal(secret("e", "east", "t1", 5).CreationTimestamp.Time) {
			t.Errorf("%+v", c)
		}
		x.reported(func() { x.change(east, "web", nil) })
		x.expect(": web", "east: api")
		x.reported(func() { x.put(with(secret("e", "east", "t2", 5), "exports", "mirrors")) }) // and other credentials
		x.expect(": web", "east: mirrors api")
		x.reported(func() {
			x.mu.Lock()
			x.selector["east"] = "other2"
			x.mu.Unlock()
			x.store.RelistServices("east")
		})
		x.expect(": web", "east: mirrors")
		x.reported(func() {
			x.mu.Lock()
			x.selector[""] = "none"
			x.mu.Unlock()
			x.store.RelistServices("")
			x.store.RelistServices("unknown")
		})
		x.expect(":", "east: mirrors")
		if now, _ := x.store.Exports(); now[1].OtherNetwork {
			t.Error("the cluster is on another network")
		}
		x.reported(func() { x.put(with(secret("e", "east", "t2", 5), "network", "far")) })
		if now, _ := x.store.Exports(); !now[1].OtherNetwork {
			t.Error("the cluster is not on another network")
		}
		x.reported(func() { x.remove("e") })
		x.expect(":")
		changed := x.store.ExportsChanged()
		x.pass(time.Minute)
		if closed(changed) {
			t.Error("a change was reported although nothing changed")
		}
	}, exported("web"), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "plain"}})
}

// change updates a Service. If to is nil, it deletes the Service.
func (x *exportWorld) change(api *fake.Clientset, name string, to *corev1.Service) {
	x.t.Helper()
	var err error
	if to == nil {
		err = api.CoreV1().Services("shop").Delete(x.t.Context(), name, metav1.DeleteOptions{})
	} else {
		_, err = api.CoreV1().Services("shop").Update(x.t.Context(), to, metav1.UpdateOptions{})
	}
	if err != nil {
		x.t.Fatal(err)
	}
}
