package decode

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"isthmus/clusterstore/internal/clustertest"
)

func newMaker(seed, stream uint64) clustertest.Maker {
	return clustertest.Maker{Rand: rand.New(rand.NewPCG(seed, stream))}
}

// prune clears the unused fields of an object that client-go has decoded.
func prune(o Object, used string) {
	clustertest.Prune(reflect.ValueOf(o).Elem(), strings.Fields(used))
	annotations := o.GetAnnotations()
	for key := range annotations {
		if !usedAnnotation(key) {
			delete(annotations, key)
		}
	}
	var newest time.Time
	for _, f := range o.GetManagedFields() {
		if f.Operation == metav1.ManagedFieldsOperationUpdate && f.Time != nil && f.Time.After(newest) {
			newest = f.Time.Time
		}
	}
	o.SetManagedFields(nil)
	if !newest.IsZero() {
		o.SetManagedFields([]metav1.ManagedFieldsEntry{
			{Operation: metav1.ManagedFieldsOperationUpdate, Time: &metav1.Time{Time: newest}},
		})
	}
	switch o := o.(type) {
	case *corev1.Pod:
		for _, list := range [][]corev1.Container{o.Spec.Containers, o.Spec.InitContainers} {
			for i := range list {
				list[i].Env = slices.DeleteFunc(list[i].Env, func(e corev1.EnvVar) bool {
					return !usedVariable(e.Name)
				})
			}
		}
	case *corev1.Secret:
		for key := range o.Data {
			if key != "kubeconfig" {
				delete(o.Data, key)
			}
		}
	}
}

// odd has specs of the wrong form. The value is a part of the expected reason.
var odd = map[string]string{
	`"text"`:                    "spec: ",
	`[]`:                        "spec: ",
	`{"port":{}}`:               "spec: ",
	`{"port":1.5}`:              "spec: ",
	`{"port":true}`:             "spec: ",
	`{"port":99999999999}`:      "spec: ",
	`{"podSelector":"app=web"}`: "podSelector",
	`{"podSelector":{"matchLabels":{"a":1}}}`:                    "matchLabels",
	`{"externalWorkloadSelector":{"matchExpressions":[null,7]}}`: "matchExpressions",
	`{"proxyProtocol":["opaque"]}`:                               "proxyProtocol",
}

// TestServers checks how valid and malformed specs of Servers are decoded. The metadata of a
// malformed Server is decoded.
func TestServers(t *testing.T) {
	read := func(spec string) (s Server) {
		if err := json.Unmarshal(
			[]byte(`{"metadata":{"name":"n","labels":{"a":"b"}},"spec":`+spec+`}`), &s,
		); err != nil || s.Name != "n" || s.Labels["a"] != "b" {
			t.Errorf("%s is decoded as %+v, %v", spec, s, err)
		}
		return s
	}
	for spec, reason := range odd {
		if s := read(spec); !strings.Contains(s.Invalid, reason) || !reflect.DeepEqual(s.Spec, ServerSpec{}) {
			t.Errorf("%s is decoded as %+v", spec, s)
		}
	}
	good := ServerSpec{
		Port: intstr.FromString("http"), ProxyProtocol: ProtocolOpaque,
		PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
	}
	if s := read(
		`{"port":"http","proxyProtocol":"opaque","podSelector":{"matchLabels":{"app":"web"}}}`,
	); s.Invalid != "" || !reflect.DeepEqual(s.Spec, good) {
		t.Errorf("%+v", s)
	}
	if s := read(`{"port":80,"unknown":{"field":1}}`); s.Invalid != "" || s.Spec.Port != intstr.FromInt32(80) {
		t.Errorf("%+v", s)
	}
}

// TestOthers checks how valid and malformed specs and statuses of the other kinds are decoded.
func TestOthers(t *testing.T) {
	for _, x := range []struct{ spec, status, invalid string }{
		{
			spec: `{"meshTLS":{"identity":"i","serverName":"n"},"ports":[{"name":"http","port":80,` +
				`"protocol":"TCP"}],"workloadIPs":[{"ip":"10.0.0.1"}]}`,
			status: `{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`,
		},
		{spec: `{}`, status: `{"conditions":[{"lastTransitionTime":"yesterday"}]}`},
		{spec: `null`, status: `7`},
		{spec: `{"meshTLS":"i"}`, status: `{}`, invalid: "meshTLS"},
		{spec: `{"ports":[{"port":"80"}]}`, status: `null`, invalid: "port"},
	} {
		var w ExternalWorkload
		if err := json.Unmarshal(
			[]byte(`{"metadata":{"name":"v"},"spec":`+x.spec+`,"status":`+x.status+`}`), &w,
		); err != nil {
			t.Fatal(err)
		}
		if w.Name != "v" || !strings.Contains(w.Invalid, x.invalid) || (w.Invalid == "") != (x.invalid == "") {
			t.Errorf("%s is decoded as %+v", x.spec, w)
		}
		if ready := strings.Contains(x.status, "Ready"); ready != (len(w.Status.Conditions) == 1) {
			t.Errorf("status %s is decoded as %+v", x.status, w.Status)
		}
	}
	const profile = `{"metadata":{"name":"web.ns.svc.cluster.local"},"spec":{
		"routes":[{"name":"r","condition":{"all":[{"method":"GET"},null,{"not":{"pathRegex":"/x"}}]},
			"isRetryable":true,"timeout":"1s",
			"responseClasses":[{"condition":{"any":[{"status":{"min":500,"max":599}}]},"isFailure":true}]}],
		"retryBudget":{"retryRatio":0.5,"minRetriesPerSecond":3,"ttl":"1m"},
		"dstOverrides":[{"authority":"a:1","weight":"500m"}]}}`
	var p ServiceProfile
	if err := json.Unmarshal([]byte(profile), &p); err != nil || p.Invalid != "" {
		t.Fatal(err, p.Invalid)
	}
	r := p.Spec.Routes[0]
	if len(r.Condition.All) != 3 || r.Condition.All[0].Method != "GET" || r.Condition.All[1] != nil ||
		r.Condition.All[2].Not.PathRegex != "/x" ||
		!r.IsRetryable || r.Timeout != "1s" || !r.ResponseClasses[0].IsFailure ||
		*r.ResponseClasses[0].Condition.Any[0].Status != (Range{500, 599}) {
		t.Errorf("%+v", r)
	}
	if p.Spec.DstOverrides[0].Weight != "500m" || *p.Spec.RetryBudget != (RetryBudget{0.5, 3, "1m"}) {
		t.Errorf("%+v", p.Spec)
	}
	for weight, want := range map[string]Amount{
		`"heavy"`:     "heavy",
		`1e999999999`: "1e999999999",
		`0.5`:         "0.5",
		`null`:        "",
		`"\u0031"`:    "1",
	} {
		if err := json.Unmarshal(
			[]byte(`{"spec":{"dstOverrides":[{"weight":`+weight+`}]}}`), &p,
		); err != nil || p.Invalid != "" || p.Spec.DstOverrides[0].Weight != want {
			t.Errorf("%s: %v %+v", weight, err, p)
		}
	}
	if err := json.Unmarshal(
		[]byte(`{"metadata":{"name":"p"},"spec":{"dstOverrides":[{"weight":[1]}]}}`), &p,
	); err != nil || p.Invalid == "" || p.Name != "p" || len(p.Spec.Routes) != 0 {
		t.Errorf("%v %+v", err, p)
	}
}

// FuzzSpec checks that no content of a spec or status causes an error.
func FuzzSpec(f *testing.F) {
	for spec := range odd {
		f.Add(spec, spec)
	}
	f.Add(
		`{"routes":[null,{"condition":{"all":[null]},"responseClasses":[null]}],"dstOverrides":[null]}`,
		`{"conditions":[{}]}`,
	)
	f.Add(
		`{"targetClusterName":"east","selector":{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]},`+
			`"excludedLabels":["a/*"]}`,
		`{}`,
	)
	f.Fuzz(func(t *testing.T, spec, status string) {
		if !json.Valid([]byte(spec)) || !json.Valid([]byte(status)) {
			return
		}
		data := []byte(`{"metadata":{"name":"n"},"spec":` + spec + `,"status":` + status + `}`)
		for _, o := range []any{&Server{}, &ExternalWorkload{}, &ServiceProfile{}, &Link{}} {
			if err := json.Unmarshal(data, o); err != nil {
				t.Errorf("%T: %v", o, err)
			}
		}
	})
}

// TestRetryAfter checks that a Retry-After header is a number of seconds or a date. Any other value
// is ignored.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]int32{
		"": 0, "0": 0, "7": 7, " 7 ": 7, "3600": 3600, "3601": 3600, "99999999999999999999": 3600,
		"-1": 0, "1.5": 0, "soon": 0,
		now.Add(30 * time.Second).Format(http.TimeFormat): 31, now.Add(-time.Hour).Format(http.TimeFormat): 0,
		now.AddDate(1000, 0, 0).Format(http.TimeFormat): 3600,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// FuzzRetryAfter checks that no header makes a client wait longer than the maximum.
func FuzzRetryAfter(f *testing.F) {
	f.Add("10")
	f.Add("Fri, 02 Jan 2026 03:04:05 GMT")
	f.Fuzz(func(t *testing.T, text string) {
		if seconds := retryAfter(text, time.Now()); seconds < 0 || seconds > maxRetryAfter {
			t.Errorf("%q: %d", text, seconds)
		}
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
