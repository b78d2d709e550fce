package server

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/client-go/rest"

	"isthmus/cmd/isthmus/internal/admin"
	"isthmus/internal/adminapi"
	"isthmus/local/exports/plan"
)

// TestReplicaName checks that the name is $HOSTNAME, or the host name of the machine if $HOSTNAME
// is empty.
func TestReplicaName(t *testing.T) {
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for env, want := range map[string]string{"isthmus-7": "isthmus-7", "": machine} {
		t.Setenv("HOSTNAME", env)
		if got, err := replicaName(); got != want || err != nil {
			t.Errorf("$HOSTNAME=%q: %q, %v, want %q", env, got, err, want)
		}
	}
}

// TestWriterFollowsFlags checks that there is no writer without EndpointSlices. The queue of the
// writer has metrics only on request.
func TestWriterFollowsFlags(t *testing.T) {
	for _, x := range []struct {
		slices, metrics bool
		parts, series   int
	}{{true, true, 1, 12}, {true, false, 1, 4}, {false, true, 0, 0}} {
		registry := prometheus.NewRegistry()
		o := &options{namespace: "linkerd", slices: x.slices, queueMetrics: x.metrics}
		w, err := newSliceWriter(o, &rest.Config{Host: "http://127.0.0.1:1"}, nil, registry, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		if n := len(w.parts()); n != x.parts {
			t.Errorf("%+v: %d parts", x, n)
		}
		families, err := registry.Gather()
		n := 0
		for _, f := range families {
			n += len(f.GetMetric())
		}
		if err != nil || n != x.series {
			t.Errorf("%+v: %d series: %v", x, n, err)
		}
	}
}

// quiet is a cluster in which Linkerd's service mirrors have not run for a long time.
type quiet struct{}

func (quiet) Run(context.Context)             {}
func (quiet) Selectors(string) plan.Selectors { return plan.Selectors{} }
func (quiet) Complete(*plan.Cluster)          {}
func (quiet) Notes() []string                 { return []string{"Links can't be read"} }

// fillingStore is a store that becomes synced after its creation.
type fillingStore struct {
	changed chan struct{}
	read    atomic.Bool
}

func (f *fillingStore) Exports() (plan.World, bool)     { return plan.World{}, f.read.Load() }
func (f *fillingStore) ExportsChanged() <-chan struct{} { return f.changed }
func (*fillingStore) RelistServices(string)             {}
func (*fillingStore) NotifyExports()                    {}

// TestExportSettings checks that plans depend on the flags, and that there is no plan before all
// kinds have been listed.
func TestExportSettings(t *testing.T) {
	store := new(fillingStore)
	o := flagsOf(t, "--controller-namespace=l5d", "--multicluster-namespace=mc", "--cluster-name=west",
		"--enable-ipv6=false", "--unlinked-after=1m", "--max-exports-per-link=2", "--max-exports-per-namespace=3",
		"--export-sources=serviceexports")
	e := &exporter{options: o, store: store, linkerd: quiet{}}
	if w, ok := e.World(); ok || !w.Now.IsZero() {
		t.Errorf("before all kinds are listed: %+v", w)
	}
	store.read.Store(true)
	want := plan.Settings{
		Controller:      "l5d",
		Multicluster:    "mc",
		ClusterName:     "west",
		IPv4Only:        true,
		UnlinkedAfter:   time.Minute,
		MaxPerLink:      2,
		MaxPerNamespace: 3,
		ServiceExports:  true,
	}
	w, ok := e.World()
	if !ok || w.Settings != want || w.Now.IsZero() || w.LeaseOf("east") != plan.Lease(0) {
		t.Errorf("%t %+v, want %+v", ok, w.Settings, want)
	}
}

// TestExportsUnread checks that unreadable kinds for exports are logged once.
func TestExportsUnread(t *testing.T) {
	forbidden := adminapi.Resource{Resource: "namespaces", Err: "namespaces is forbidden", Failure: adminapi.Forbidden}
	imports := adminapi.Resource{
		Resource: "serviceimports", Err: "serviceimports is forbidden", Failure: adminapi.Forbidden,
	}
	const unknown, known = "cannot determine what to write for exports: nothing is written",
		"Isthmus can again determine what to write for exports"
	for name, test := range map[string]struct {
		known     bool
		resources []adminapi.Resource
		want      []string
	}{
		"all is read":            {true, nil, nil},
		"a kind does not matter": {true, []adminapi.Resource{{Resource: "jobs", Err: "jobs is forbidden"}}, nil},
		"no Namespaces": {false, []adminapi.Resource{forbidden}, []string{
			unknown + " [namespaces: namespaces is forbidden]", known + " <nil>",
		}},
		"no link Secrets": {false, nil, []string{unknown + " [" + admin.ExportsUnread + "]", known + " <nil>"}},
		"no ServiceImports": {true, []adminapi.Resource{imports}, []string{
			"ServiceExports are not imported [serviceimports: serviceimports is forbidden]",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, logs := observer.New(zap.InfoLevel)
				store := &fillingStore{changed: make(chan struct{})}
				store.read.Store(test.known)
				own := adminapi.Cluster{ClusterStatus: adminapi.ClusterStatus{Resources: test.resources}}
				e := &exporter{store: store, local: func() adminapi.Cluster { return own }, log: zap.New(core)}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					e.reportUnread(ctx)
				}()
				time.Sleep(unreadAfter + time.Hour)
				store.read.Store(true)
				close(store.changed)
				time.Sleep(time.Minute)
				cancel()
				<-done

				var got []string
				for _, entry := range logs.All() {
					got = append(got, fmt.Sprint(entry.Message, " ", entry.ContextMap()["reasons"]))
				}
				if !slices.Equal(got, test.want) {
					t.Errorf("%q, want %q", got, test.want)
				}
			})
		})
	}
}
