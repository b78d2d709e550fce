package scenario

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestExpectSvc: what expect-svc finds wrong with a Service that was noted before.
func TestExpectSvc(t *testing.T) {
	service := func(uid, version string) seen {
		return seenService(&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), ResourceVersion: version, Labels: map[string]string{"a": "1"}, Annotations: map[string]string{"b": "2"}},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{
				{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: "TCP", AppProtocol: new("kubernetes.io/h2c")},
				{Name: "dns", Port: 53, TargetPort: intstr.FromString("dns"), Protocol: "UDP"},
			}, SessionAffinity: "ClientIP", SessionAffinityConfig: &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(5))}}},
		})
	}
	for options, want := range map[string]string{
		"label.a=1 annotation.b=2 without=c ports=http=80/8080:kubernetes.io/h2c,dns=53/dns:UDP affinity=ClientIP/5 untouched": "",
		"label.a=2":                            `label a is "1", not "2"`,
		"label.b=2":                            `label b is "", not "2"`,
		"annotation.b=3":                       `annotation b is "2", not "3"`,
		"without=a":                            "a is there",
		"without=b":                            "b is there",
		"ports=http=80/8080:kubernetes.io/h2c": `ports is "http=80/8080:kubernetes.io/h2c,dns=53/dns:UDP", not "`,
		"affinity=None":                        `affinity is "ClientIP/5", not "None"`,
		"other":                                "it is the same one",
	} {
		opt, err := readOptions(strings.Fields(options), "ports=", "affinity=", "without=", "same", "other", "untouched")
		if err != nil {
			t.Fatal(err)
		}
		w := wanted{opt: opt}
		now := service("u", "1")
		r := &run{written: map[string]seen{"///": now}}
		err = w.compare(now, r)
		if got := errText(err); !strings.HasPrefix(got, want) || (want == "") != (err == nil) {
			t.Errorf("%s: %q, not %q", options, got, want)
		}
	}
	r := &run{written: map[string]seen{}}
	compare := func(flag string, s seen) string {
		return errText(wanted{opt: options{flags: map[string]bool{flag: true}}}.compare(s, r))
	}
	if got := compare("same", service("u", "1")); !strings.HasPrefix(got, "nothing was noted") {
		t.Errorf("before anything was noted: %q", got)
	}
	compare("note", service("u", "1"))
	if got := compare("same", service("u", "2")); got != "" {
		t.Errorf("a new version: %q", got)
	}
	if got := compare("untouched", service("u", "2")); !strings.HasPrefix(got, "it has been written") {
		t.Errorf("a new version, untouched: %q", got)
	}
	if got := compare("same", service("v", "2")); !strings.HasPrefix(got, "it is another one") {
		t.Errorf("another one: %q", got)
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
