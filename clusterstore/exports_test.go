package clusterstore

import (
	"context"
	"fmt"
	"reflect"
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
	"isthmus/clusterstore/decode/decodetest"
	"isthmus/clusterstore/kube"
	"isthmus/federation"
	"isthmus/local/exports/plan"
)

// exportWorld is a Store that keeps exports, in a bubble.
type exportWorld struct {
	*env
	own      *fake.Clientset
	selector map[string]string // by cluster: the label that exports have; empty: export
}

// inExports runs a test with a Store of these clusters, by name, whose exports have the label export, and with an own cluster
// that has these objects.
func inExports(t *testing.T, apis map[string]*fake.Clientset, f func(*exportWorld), own ...runtime.Object) {
	inBubble(t, func(e *env) {
		x := &exportWorld{env: e, own: fake.NewClientset(own...), selector: make(map[string]string)}
		all, err := plan.ParsePatterns("*")
		if err != nil {
			t.Fatal(err)
		}
		o := &ExportOptions{Namespaces: all, Selectors: func(cluster string) plan.Selectors {
			e.mu.Lock()
			defer e.mu.Unlock()
			key := x.selector[cluster]
			if key == "" {
				key = "export"
			}
			return plan.Selectors{Federated: func(labels map[string]string) bool { return labels[key] != "" }}
		}}
		e.onFakes(apis)
		ownCluster := x.newOwn(o)
		e.store.exports, e.store.opts.Exports, e.store.opts.LocalLink, e.store.exportsChanged = o, o, ownCluster, ownCluster.link.env.exportsChanged
		ctx, stop := context.WithCancel(e.t.Context())
		done := make(chan struct{})
		go func() { defer close(done); ownCluster.Run(ctx) }()
		x.pass(time.Second)
		f(x)
		stop()
		<-done
	})
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
	client := &kube.Client{Sources: decodetest.Sources(x.own, metadatafake.NewSimpleMetadataClient(scheme, namespace))}
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

// expect checks the clusters, each with the names that it exports, and that a change was reported since the last call.
func (x *exportWorld) expect(want ...string) {
	x.t.Helper()
	synctest.Wait()
	now, ok := x.store.Exports()
	if !ok {
		x.t.Fatal("exports are not known")
	}
	var got []string
	for _, c := range now.Clusters {
		text := c.Name + ":"
		if !c.Seen {
			text += " unseen"
		}
		text += []string{"", " mirrors", " none", " unreadable"}[c.Joins]
		for _, e := range slices.SortedFunc(slices.Values(c.Exports), func(a, b plan.Export) int { return strings.Compare(a.Name, b.Name) }) {
			text += " " + e.Name
		}
		got = append(got, text)
	}
	if !slices.Equal(got, want) {
		x.t.Errorf("exports %q, want %q", got, want)
	}
}

// reported checks that what follows a change is reported.
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

// TestStoreExports: an own and a linked cluster, from before it is read until it is linked no longer.
func TestStoreExports(t *testing.T) {
	east := fake.NewClientset(exported("api", "other"), exported("web"))
	inExports(t, map[string]*fake.Clientset{"t1": east, "t2": east}, func(x *exportWorld) {
		x.expect(": web")
		now, _ := x.store.Exports()
		if s := now.Services[plan.ID{Namespace: "shop", Name: "plain"}]; len(now.Services) != 2 || s == nil ||
			s.Labels != nil ||
			!now.Namespaces["shop"] {
			t.Errorf("%v and %v", now.Services, now.Namespaces)
		}
		x.reported(func() { x.put(secret("e", "east", "t1", 5)) })
		x.expect(": web", "east: api web")
		now, _ = x.store.Exports()
		if c := now.Clusters[1]; c.Domain != "cluster.test" ||
			!c.Age.Equal(secret("e", "east", "t1", 5).CreationTimestamp.Time) {
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
			x.store.SelectorsChanged("east")
		})
		x.expect(": web", "east: mirrors")
		x.reported(func() {
			x.mu.Lock()
			x.selector[""] = "none"
			x.mu.Unlock()
			x.store.SelectorsChanged("")
			x.store.SelectorsChanged("unknown")
		})
		x.expect(":", "east: mirrors")
		if now, _ := x.store.Exports(); now.Clusters[1].OtherNetwork {
			t.Error("the cluster is on another network")
		}
		x.reported(func() { x.put(with(secret("e", "east", "t2", 5), "network", "far")) })
		if now, _ := x.store.Exports(); !now.Clusters[1].OtherNetwork {
			t.Error("the cluster is not on another network")
		}
		x.reported(func() { x.remove("e") })
		x.expect(":")
		changed := x.store.ExportsChanged()
		x.pass(time.Minute)
		if closed(changed) {
			t.Error("a change is reported, and there is none")
		}
	}, exported("web"), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "plain"}})
}

// change changes or, with nil, deletes a Service.
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

func TestReadExports(t *testing.T) {
	flag, err := plan.ParsePatterns("shop")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		exports, namespaces string
		joins               plan.Joins
		allow, warning      string
	}{
		{"-", "-", plan.JoinsAll, "shop", ""},
		{" all ", "team-*,!team-x", plan.JoinsAll, "team-*,!team-x", ""},
		{"mirrors", "", plan.OnlyMirror, "", ""},
		{"none", "-", plan.JoinsNone, "shop", ""},
		{"nome", "team-*", plan.Unreadable, "team-*", `annotation isthmus.io/exports: "nome" is none of all, mirrors, none; what is written for the cluster's exports stays as it is`},
		{"none", "Team", plan.Unreadable, "shop", `annotation isthmus.io/export-namespaces: "Team" is no pattern of namespaces: use their names, with * for any characters, and ! before what is left out, such as shop,team-*,!team-x; what is written for the cluster's exports stays as it is`},
	} {
		annotations := make(map[string]string)
		for key, value := range map[string]string{exportsAnnotation: tc.exports, exportNamespacesAnnotation: tc.namespaces} {
			if value != "-" {
				annotations[key] = value
			}
		}
		got := readSettings(annotations, linkSettings{allow: &flag})
		want, err := plan.ParsePatterns(tc.allow)
		if err != nil {
			t.Fatal(err)
		}
		if got.joins != tc.joins || fmt.Sprint(*got.allow) != fmt.Sprint(want) ||
			strings.Join(got.warnings, " and ") != tc.warning {
			t.Errorf("%v: %v, %v, %q", annotations, got.joins, *got.allow, got.warnings)
		}
		if got := readSettings(annotations, linkSettings{}); got.allow != nil || got.joins != plan.JoinsAll ||
			len(got.warnings) > 0 {
			t.Errorf("%v: while exports are not kept, %+v", annotations, got)
		}
	}
}

// TestReadExcludedLabels tests the annotation for labels that are not copied, in place of the flag.
func TestReadExcludedLabels(t *testing.T) {
	parse := func(list string) plan.KeyPatterns {
		p, err := plan.ParseKeyPatterns(list)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	defaults := linkSettings{allow: new(plan.Patterns), exclude: parse("tmp-*")}
	for _, tc := range []struct {
		annotations map[string]string
		joins       plan.Joins
		want        string
		warnings    int
	}{
		{nil, plan.JoinsAll, "tmp-*", 0},
		{
			map[string]string{excludeLabelsAnnotation: " example.com/*,!example.com/a "}, plan.JoinsAll,
			"example.com/*,!example.com/a", 0,
		},
		{map[string]string{excludeLabelsAnnotation: ""}, plan.JoinsAll, "", 0},
		{map[string]string{excludeLabelsAnnotation: "a b", exportsAnnotation: "none"}, plan.Unreadable, "tmp-*", 1},
		{map[string]string{excludeLabelsAnnotation: strings.Repeat("a,", 65)}, plan.Unreadable, "tmp-*", 1},
	} {
		got := readSettings(tc.annotations, defaults)
		if got.joins != tc.joins || !reflect.DeepEqual(got.exclude, parse(tc.want)) ||
			len(got.warnings) != tc.warnings {
			t.Errorf("%v: %v, %v, %q", tc.annotations, got.joins, got.exclude, got.warnings)
		}
	}
}

// FuzzReadExports: whatever the annotations have, one that can't be read has one short warning, and stops what is written for the link.
func FuzzReadExports(f *testing.F) {
	f.Add("all", "shop,team-*,!team-x", "example.com/*,!tmp")
	f.Add("nome", "!,", "!")
	f.Add(" none\n", strings.Repeat("É", 400), strings.Repeat("*a", 200))
	f.Fuzz(func(t *testing.T, exports, namespaces, labels string) {
		annotations := map[string]string{
			exportsAnnotation: exports, exportNamespacesAnnotation: namespaces, excludeLabelsAnnotation: labels,
		}
		all := readSettings(annotations, linkSettings{allow: new(plan.Patterns)})
		if (all.joins == plan.Unreadable) != (len(all.warnings) > 0) || all.joins > plan.Unreadable ||
			all.allow == nil || len(all.warnings) > 3 {
			t.Fatalf("%q: %v, %q", annotations, all.joins, all.warnings)
		}
		for _, w := range all.warnings {
			if len(w) > 1024 || !strings.HasSuffix(w, "stays as it is") {
				t.Fatalf("%q: %q", annotations, w)
			}
		}
	})
}
