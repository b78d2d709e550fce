package cluster

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/federation"
)

// explained lists the verdicts on the addresses of a Service.
func (w *world) explained(name string, port uint16) (list []string) {
	for x := range w.Explain(federation.ServiceID{Namespace: "ns", Name: name}, port) {
		text := x.Text
		if x.Addr.IsValid() {
			text = x.Addr.String()
		}
		text = strings.TrimPrefix(x.Slice, "ns/") + " " + text + " " + x.Verdict.String()
		for _, more := range []string{x.Target, x.Detail} {
			if more != "" {
				text += ", " + more
			}
		}
		list = append(list, text)
	}
	return list
}

// TestExplain checks each reason for which a share omits an address.
func TestExplain(t *testing.T) {
	web := aService("web", "http=80")
	external := aService("web", "http=80")
	external.Spec.Type = corev1.ServiceTypeExternalName
	names := aSlice("s", "web", "http=8080", "10.0.0.1")
	names.AddressType = discoveryv1.AddressTypeFQDN
	invalid := aWorkload("v", "http=8080")
	invalid.Invalid = "spec is strange"
	long := strings.Repeat("x", 2*maxSentText)
	for _, x := range []struct {
		name    string
		port    uint16
		objects []metav1.Object
		want    string
	}{
		{"served", 80, []metav1.Object{web, aPod("p"), aSlice("s", "web", "http=8080", "10.0.0.1 pod=p", "10.0.0.2")},
			"s 10.0.0.1:8080 served, Pod ns/p | s 10.0.0.2:8080 served"},
		{"no Service", 80, []metav1.Object{aSlice("s", "web", "http=8080", "10.0.0.1", "10.0.0.2 unready")},
			"s 10.0.0.1:0 no-such-service | s 10.0.0.2:0 no-such-service"},
		{"ExternalName", 80, []metav1.Object{external, aSlice("s", "web", "http=8080", "10.0.0.1")},
			"s 10.0.0.1:0 no-such-service"},
		{"no such port", 80, []metav1.Object{web, aSlice("s", "web", "other=8080", "10.0.0.1", "10.0.0.2 unready")},
			"s 10.0.0.1:0 no-such-port | s 10.0.0.2:0 no-such-port"},
		{"no ports", 80, []metav1.Object{web, aSlice("s", "web", "", "10.0.0.1", "10.0.0.2 pod=p")},
			"s 10.0.0.1:0 no-such-port | s 10.0.0.2:0 no-such-port, Pod ns/p"},
		{"port that is not declared", 99, []metav1.Object{web, aSlice("s", "web", "other=8080", "10.0.0.1")},
			"s 10.0.0.1:99 served"},
		{"not ready", 80, []metav1.Object{web, aSlice("s", "web", "http=8080", "10.0.0.1 pod=p unready")},
			"s 10.0.0.1:8080 not-ready, Pod ns/p"},
		{"terminating", 80, []metav1.Object{web, aSlice("s", "web", "http=8080", "10.0.0.1 pod=p unready terminating")},
			"s 10.0.0.1:0 terminating, Pod ns/p"},
		{"stands for something else", 80,
			[]metav1.Object{web, aSlice("s", "web", "http=8080", "10.0.0.1 kind=Node", "10.0.0.2 kind=Node unready")},
			"s 10.0.0.1:0 stands-for-something-else, Node ns/x | s 10.0.0.2:0 not-ready, Node ns/x"},
		{"no address", 80,
			[]metav1.Object{web, aSlice("s", "web", "http=8080", "nonsense", "10.0.0.300 unready", long)},
			"s nonsense unusable-text | s 10.0.0.300 not-ready | s " + long[:maxLeftText] + "… unusable-text"},
		{"not routable", 80, []metav1.Object{web, aSlice("s", "web", "http=8080", "127.0.0.1", "224.0.0.1")},
			"s 127.0.0.1:0 not-routable | s 224.0.0.1:0 not-routable"},
		{"address of no host", 80,
			[]metav1.Object{web, aSlice("s", "web", "http=8080", "0.0.0.5", "255.255.255.255", "240.0.0.1")},
			"s 240.0.0.1:8080 served | s 0.0.0.5:0 not-routable | s 255.255.255.255:0 not-routable"},
		{"Pod not known", 80, []metav1.Object{web, aSlice("s", "web", "http=8080", "10.0.0.1 pod=p")},
			"s 10.0.0.1:8080 pod-not-known, Pod ns/p"},
		{"ExternalWorkload not known", 80, []metav1.Object{web, aSlice("s", "web", "http=8080", "10.0.0.1 ew=v")},
			"s 10.0.0.1:8080 pod-not-known, ExternalWorkload ns/v"},
		{"unusable", 80, []metav1.Object{web, invalid, aSlice("s", "web", "http=8080", "10.0.0.1 ew=v")},
			"s 10.0.0.1:8080 unusable, ExternalWorkload ns/v, spec is strange"},
		{"text that can't be sent", 80,
			[]metav1.Object{web, aPod("p"), aSlice("s", "web", "http=8080", "10.0.0.1 pod=p zone=\xff")},
			"s 10.0.0.1:8080 unusable-text, Pod ns/p"},
		{"text that would forge metrics", 80,
			[]metav1.Object{web, aPod("p"), aSlice("s", "web", "http=8080", `10.0.0.1 pod=p zone=a"}`)},
			"s 10.0.0.1:8080 unusable-text, Pod ns/p"},
		{"two slices", 80,
			[]metav1.Object{web, aSlice("b", "web", "http=1", "10.0.0.1"), aSlice("a", "web", "http=2", "10.0.0.1")},
			"a 10.0.0.1:2 served | b 10.0.0.1:1 served"},
		{"another Service's", 80, []metav1.Object{web, aSlice("s", "other", "http=8080", "10.0.0.1")}, ""},
		{"names", 80, []metav1.Object{web, names}, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			for _, change := range []func(*Config){nil, withAddresses} {
				w := newWorld(t, change)
				w.put(x.objects...)
				if got := strings.Join(w.explained("web", x.port), " | "); got != x.want {
					t.Errorf("got %q, want %q", got, x.want)
				}
			}
		})
	}
}

// TestExplainChanged checks the time of the last change of a verdict. That is the last change of
// the address's slice, or the first list.
func TestExplainChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		began := time.Now()
		w.put(
			aService("web", "http=80"),
			aSlice("a", "web", "http=8080", "10.0.0.1 pod=p"),
			aSlice("b", "web", "http=8080", "127.0.0.1"),
		)
		var got []time.Duration
		step := func() {
			for x := range w.Explain(federation.ServiceID{Namespace: "ns", Name: "web"}, 80) {
				got = append(got, x.Changed.Sub(began))
			}
			time.Sleep(time.Minute)
		}
		step()
		w.put(aSlice("a", "web", "http=8080", "10.0.0.1 pod=p"), aPod("p")) // as it was, and its Pod comes
		step()
		w.put(aSlice("a", "web", "http=8080", "10.0.0.1 pod=p", "10.0.0.2"))
		step()
		if want := []time.Duration{0, 0, 0, 0, 2 * time.Minute, 2 * time.Minute, 0}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// TestExplainLeftOutIsNoChange checks that a change of an omitted address changes its verdict. The
// change is not reported to readers.
func TestExplainLeftOutIsNoChange(t *testing.T) {
	w := newWorld(t, nil)
	w.put(aService("web", "http=80"))
	for i, step := range []struct{ left, want string }{
		{"10.0.0.2 pod=p unready terminating", "s 10.0.0.2:0 terminating, Pod ns/p"},
		{"10.0.0.3 kind=Node", "s 10.0.0.3:0 stands-for-something-else, Node ns/x"},
		{"10.0.0.3 kind=Node", "s 10.0.0.3:0 stands-for-something-else, Node ns/x"},
		{"", ""},
		{"127.0.0.1", "s 127.0.0.1:0 not-routable"},
	} {
		addresses, want := []string{"10.0.0.1"}, []string{"s 10.0.0.1:8080 served"}
		if step.left != "" {
			addresses, want = append(addresses, step.left), append(want, step.want)
		}
		w.put(aSlice("s", "web", "http=8080", addresses...))
		if got := w.explained("web", 80); !slices.Equal(got, want) {
			t.Errorf("step %d: got %q, want %q", i, got, want)
		}
		if marked := w.marked(); (len(marked) > 0) != (i == 0) {
			t.Errorf("step %d: reported %q", i, marked)
		}
	}
}
