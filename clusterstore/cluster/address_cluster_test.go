package cluster

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"isthmus/clusterstore/crd"
)

// watchedAddress is an address of a running cluster, as a client knows it that looks it
// up again only when a change is reported.
type watchedAddress struct {
	*running
	addr  netip.AddrPort
	known string
}

// atAddress runs a cluster and watches one address of it.
func atAddress(t *testing.T, addr string, test func(*watchedAddress), objects ...runtime.Object) {
	w := &watchedAddress{addr: netip.MustParseAddrPort(addr)}
	inCluster(t, func(c *Config, _ *trouble) {
		withAddresses(c)
		c.own.ProfileChanged = func(about Topic, _ time.Time) {
			if about.IP == w.addr.Addr() {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.known = describeFound(w.LookupAddress(w.addr))
			}
		}
	}, func(r *running) {
		w.running = r
		if !r.isSynced() {
			t.Fatalf("not synced: %+v", r.Health())
		}
		w.known = describeFound(w.LookupAddress(w.addr))
		test(w)
	}, objects...)
}

// is checks what the client knows.
func (w *watchedAddress) is(what, want string) {
	w.t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known != want {
		w.t.Errorf("%s: known is\n%s\nwant\n%s; now it is\n%s", what, w.known, want, describeFound(w.LookupAddress(w.addr)))
	}
}

// forget makes the client forget what it knows, until the next report.
func (w *watchedAddress) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known = ""
}

func (w *watchedAddress) update(o runtime.Object) {
	w.t.Helper()
	var err error
	switch o := o.(type) {
	case *corev1.Pod:
		_, err = w.api.typed.CoreV1().Pods("ns").Update(context.Background(), o, metav1.UpdateOptions{})
	case *corev1.Service:
		_, err = w.api.typed.CoreV1().Services("ns").Update(context.Background(), o, metav1.UpdateOptions{})
	case *crd.Server:
		err = w.api.crd.trackers["servers"].Update(serversResource, o, "ns")
	case *crd.ExternalWorkload:
		err = w.api.crd.trackers["externalworkloads"].Update(workloadsResource, o, "ns")
	case *crd.ServiceProfile:
		err = w.api.crd.trackers["serviceprofiles"].Update(profilesResource, o, "ns")
	}
	if err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func (w *watchedAddress) remove(o metav1.Object) {
	w.t.Helper()
	var err error
	switch o.(type) {
	case *corev1.Pod:
		err = w.api.typed.CoreV1().Pods("ns").Delete(context.Background(), o.GetName(), metav1.DeleteOptions{})
	case *corev1.Service:
		err = w.api.typed.CoreV1().Services("ns").Delete(context.Background(), o.GetName(), metav1.DeleteOptions{})
	case *crd.Server:
		err = w.api.crd.trackers["servers"].Delete(serversResource, "ns", o.GetName())
	case *crd.ExternalWorkload:
		err = w.api.crd.trackers["externalworkloads"].Delete(workloadsResource, "ns", o.GetName())
	}
	if err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// TestPodAddressLife: several Pods own an address, one after the other.
func TestPodAddressLife(t *testing.T) {
	atAddress(t, "10.0.0.1:4191", func(w *watchedAddress) {
		const bare = "10.0.0.1:4191"
		w.is("P-14 no owner", bare)
		w.create(aPod("p", meshed))
		w.is("no address yet", bare)
		w.update(aPod("p", meshed, at("10.0.0.1"), phase(corev1.PodPending)))
		w.is("P-11 Pending", bare)
		w.update(aPod("p", meshed, at("10.0.0.1")))
		w.is("P-11 Running", bare+meshedDescribed)
		w.update(aPod("p", at("10.0.0.1"), podAnnotation(opaqueAnnotation, "4191")))
		w.is("another label and annotation", bare+podDescribed+" opaque")
		w.update(aPod("p", at("10.0.0.1"), func(o *corev1.Pod) { o.Spec.ServiceAccountName = "sa" }))
		w.is("another service account", bare+strings.Replace(podDescribed, "default", "sa", 1))
		w.update(aPod("p", at("10.0.0.1"), terminating))
		w.is("draining", bare+podDescribed)
		w.create(aPod("q", at("10.0.0.1"), phase(corev1.PodPending)))
		w.is("its address is given to another", bare)
		w.update(aPod("q", at("10.0.0.1")))
		w.is("which runs", bare+strings.NewReplacer("pod:p", "pod:q", "ns/p", "ns/q").Replace(podDescribed))
		w.update(aPod("p", at("10.0.0.1")))
		w.is("both run", "claimed by 2 Pods with IP 10.0.0.1")
		w.remove(aPod("q"))
		w.is("the other is gone", bare+podDescribed)
		w.update(aPod("p", at("10.0.0.9")))
		w.is("moved", bare)
	})
}

// TestHostPort: row P-27.
func TestHostPort(t *testing.T) {
	pod := func(name string, options ...func(*corev1.Pod)) *corev1.Pod {
		o := aPod(name, at("10.0.0.1"), onHost("192.168.1.20"), podLabel("app", "x"), namedPort("nginx-7777", 80, 7777))
		for _, f := range options {
			f(o)
		}
		return o
	}
	atAddress(t, "192.168.1.20:7777", func(w *watchedAddress) {
		const bare = "192.168.1.20:7777"
		w.is("P-27 the Pod", bare+podDescribed)
		w.remove(pod("p"))
		w.is("P-27 it is gone", bare)
		second := strings.NewReplacer("pod:p", "pod:q", "ns/p", "ns/q").Replace(meshedDescribed)
		w.create(pod("q", meshed))
		w.is("P-27 another one", bare+second+" inbound=4143")
		w.create(aServer("s", "nginx-7777", "app=x"))
		w.is("P-27 a Server", bare+second+" opaque inbound=4143")
		w.update(aServer("s", "nginx-7777", "app=x", protocol("HTTP/1")))
		w.is("and back", bare+second+" inbound=4143")
	}, pod("p"))
}

// TestWorkloadAddressLife: an address of an ExternalWorkload, with changes of that and of
// Servers.
func TestWorkloadAddressLife(t *testing.T) {
	atAddress(t, "10.2.0.1:80", func(w *watchedAddress) {
		const bare = "10.2.0.1:80"
		w.is("no owner", bare)
		w.create(workloadAt(aWorkload("v", "http=80"), "10.2.0.1"))
		w.is("P-13", bare+workloadDescribed+" inbound=4143")
		w.create(aServer("s", "80", "", forWorkloads))
		w.is("P-24 a Server", bare+workloadDescribed+" opaque inbound=4143")
		w.remove(aServer("s", "80", ""))
		w.is("it is gone", bare+workloadDescribed+" inbound=4143")
		w.update(workloadAt(aWorkload("v", "linkerd-proxy=80"), "10.2.0.1"))
		w.is("another proxy port", bare+workloadDescribed+" inbound=80")
		w.update(workloadAt(aWorkload("v", "http=81"), "10.2.0.1"))
		w.is("another port", bare)
		w.update(workloadAt(aWorkload("v", "http=80"), "10.2.0.1"))
		w.remove(aWorkload("v"))
		w.is("gone", bare)
	})
}

// TestClusterIPLife: a cluster IP whose Service is deleted and created again, and the
// topics of the Service's profiles.
func TestClusterIPLife(t *testing.T) {
	web := func() *corev1.Service { return clusterIP(aService("web", "http=80"), "10.1.0.1") }
	atAddress(t, "10.1.0.1:80", func(w *watchedAddress) {
		w.is("I-01", "Service ns/web")
		w.remove(web())
		w.is("gone", "10.1.0.1:80")
		w.create(web())
		w.is("back", "Service ns/web")
		w.forget()
		w.update(serviceAnnotation(web(), opaqueAnnotation, "80"))
		w.is("O-04 annotated", "Service ns/web")
		w.forget()
		w.create(aProfile("web.ns", `{}`))
		w.is("a ServiceProfile", "Service ns/web")
		if p, exists := w.ServiceProfile("ns", "web.ns.svc.cluster.local"); p == nil || !exists {
			t.Errorf("it is %v, there %v", p, exists)
		}
		w.forget()
		w.update(aProfile("web.ns", `{"routes":[]}`))
		w.is("an equal one", "")
	}, web())
}

// TestInstanceLife: a hostname of an address that is not ready, and of a Pod that comes
// late.
func TestInstanceLife(t *testing.T) {
	w := newWorld(t, withAddresses)
	w.put(aService("web", "http=80"), aSlice("s", "web", "http=80", "10.0.0.1 pod=p host=i unready"))
	w.markedTopics()
	step := func(what, want string, o runtime.Object) {
		t.Helper()
		w.put(o)
		if got := w.instance(80); got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
		topics := w.markedTopics()
		_, ofInstances := topics[Topic{Service: web80.Service, Instances: true}]
		if _, ofService := topics[Topic{Service: web80.Service}]; !ofInstances || ofService {
			t.Errorf("%s: reported %v", what, topics)
		}
	}
	step("another hostname", "", aSlice("s", "web", "http=80", "10.0.0.1 pod=p host=h unready"))
	step("the Pod, without address", "", aPod("p"))
	step("with one", "10.0.0.1:80", aPod("p", at("10.0.0.1"), phase(corev1.PodPending)))
	step("Running", "10.0.0.1:80"+podDescribed, aPod("p", at("10.0.0.1")))
	step("ready", "10.0.0.1:80"+podDescribed, aSlice("s", "web", "http=80", "10.0.0.1 pod=p host=h"))
	step("by a Server", "10.0.0.1:80"+podDescribed+" opaque", aServer("s", "80", ""))
	step("Failed", "10.0.0.1:80", aPod("p", at("10.0.0.1"), phase(corev1.PodFailed)))
	step("renamed", "", aSlice("s", "web", "http=80", "10.0.0.1 pod=p host=i"))
}

// TestNoServiceProfiles: where ServiceProfiles can't be listed all else works, and the
// health has the error.
func TestNoServiceProfiles(t *testing.T) {
	inCluster(t, func(c *Config, tr *trouble) {
		withAddresses(c)
		tr.set("* serviceprofiles", forbidden("serviceprofiles"))
	}, func(r *running) {
		if !r.isSynced() {
			t.Fatalf("not synced: %+v", r.Health())
		}
		if got := describeFound(r.LookupAddress(netip.MustParseAddrPort("10.0.0.1:80"))); got != "10.0.0.1:80"+podDescribed {
			t.Errorf("got %s", got)
		}
		if h := r.resource("serviceprofiles"); h.Needed || h.Synced || !strings.Contains(h.Err, "forbidden") || r.Health().Err != nil {
			t.Errorf("%+v", h)
		}
		r.trouble.set("* serviceprofiles", nil)
		r.create(aProfile("web.ns", `{}`))
		r.until("ServiceProfiles", 30*time.Second, func() bool {
			_, exists := r.ServiceProfile("ns", "web.ns.svc.cluster.local")
			return exists && r.resource("serviceprofiles").Err == ""
		})
	}, aPod("p", at("10.0.0.1")))
}
