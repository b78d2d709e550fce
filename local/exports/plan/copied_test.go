package plan

import (
	"fmt"
	"strings"
	"testing"
)

func TestCopied(t *testing.T) {
	e := export("web", "mirror", "http=80")
	e.Service.Labels = map[string]string{
		"team":                         "a",
		"app.kubernetes.io/name":       "web",
		"app.kubernetes.io/managed-by": "Helm",
		"kubernetes.io/x":              "y",
		"mirror.linkerd.io/exported":   "remote-discovery",
		"argocd.argoproj.io/instance":  "web", "bad key": "x", "bad": strings.Repeat("x", 64),
	}
	e.Service.Annotations = map[string]string{
		"config.linkerd.io/opaque-ports":                    "25",
		"retry.linkerd.io/http":                             "5xx",
		"isthmus.io/prefer":                                 "east",
		"service.beta.kubernetes.io/aws-load-balancer-type": "nlb",
	}
	s := newSim(cluster("east", e))
	s.settle(t)
	o := s.Services[ID{"shop", "web-east"}]
	for key, want := range map[string]string{
		"team":                         "a",
		"app.kubernetes.io/name":       "web",
		"app.kubernetes.io/managed-by": "",
		"kubernetes.io/x":              "",
		"argocd.argoproj.io/instance":  "",
		"bad key":                      "",
		"bad":                          "",
	} {
		if o.Labels[key] != want {
			t.Errorf("label %s is %q, want %q", key, o.Labels[key], want)
		}
	}
	for key, want := range map[string]string{
		"config.linkerd.io/opaque-ports":                    "25",
		"retry.linkerd.io/http":                             "5xx",
		"isthmus.io/prefer":                                 "",
		"service.beta.kubernetes.io/aws-load-balancer-type": "",
	} {
		if o.Annotations[key] != want {
			t.Errorf("annotation %s is %q, want %q", key, o.Annotations[key], want)
		}
	}
	if d := s.last.Verdicts[0].Detail; !strings.Contains(d, `"bad key"`) {
		t.Errorf("detail %q", d)
	}
}

func TestCopiedBounds(t *testing.T) {
	labels, annotations := make(map[string]string), make(map[string]string)
	for i := range 100 {
		labels[fmt.Sprint("l", i)] = "x"
		annotations[fmt.Sprint("retry.linkerd.io/", i)] = strings.Repeat("x", 10<<10)
	}
	p := &member{link: &Cluster{}, export: &Export{Service: &Service{Labels: labels, Annotations: annotations}}}
	c := p.serviceCopies()
	if len(c.labels) != maxCopied || len(c.annotations) != 3 || len(c.refused) != 11 {
		t.Errorf("%d labels, %d annotations, %d refused", len(c.labels), len(c.annotations), len(c.refused))
	}
}

// TestRerecorded checks that a new record replaces the items of the given keys. Other items of the
// old record stay only if the plan reads them.
func TestRerecorded(t *testing.T) {
	annotations := map[string]string{"isthmus.io/prefer": "local"}
	old := record(map[string]string{"z": "1"},
		map[string]string{"isthmus.io/min-ready": "2", "retry.linkerd.io/http": "5xx"})
	want := record(map[string]string{"z": "1"},
		map[string]string{"isthmus.io/prefer": "local", "retry.linkerd.io/http": "5xx"})
	if got := rerecorded(old, preferenceKeys, annotations); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	forged := strings.Repeat("label:a=0,", maxRecordBytes/5)
	got := rerecorded(forged, preferenceKeys, annotations)
	if len(got) > maxRecordBytes+100 || !strings.HasSuffix(got, record(nil, annotations)) {
		t.Errorf("the record has %d bytes", len(got))
	}
}

func FuzzRecord(f *testing.F) {
	f.Add("label:a=0123456789,annotation:b/c=x,=,label:=")
	f.Fuzz(func(t *testing.T, text string) {
		labels, annotations := recorded(text)
		next, ours := overlay(map[string]string{"a": text, "users": "x"}, map[string]string{"a": "new"}, labels)
		if labels["users"] != hash("x", 10) && next["users"] != "x" {
			t.Errorf("the user's label is %q", next["users"])
		}
		if _, copied := labels["a"]; !copied && (next["a"] != text || ours["a"] != "") {
			t.Errorf("the label that was not copied is %q", next["a"])
		}
		_ = annotations
	})
}
