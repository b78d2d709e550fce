package plan

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

func TestCopied(t *testing.T) {
	e := export("web", "mirror", "http=80")
	e.Service.Labels = map[string]string{
		"team": "a", "app.kubernetes.io/name": "web", "app.kubernetes.io/managed-by": "Helm", "kubernetes.io/x": "y", "mirror.linkerd.io/exported": "remote-discovery",
		"argocd.argoproj.io/instance": "web", "bad key": "x", "bad": strings.Repeat("x", 64),
	}
	e.Service.Annotations = map[string]string{
		"config.linkerd.io/opaque-ports": "25", "retry.linkerd.io/http": "5xx", "isthmus.io/prefer": "east", "service.beta.kubernetes.io/aws-load-balancer-type": "nlb",
	}
	s := newSim(cluster("east", e))
	s.settle(t)
	o := s.Services[ID{"shop", "web-east"}]
	for key, want := range map[string]string{"team": "a", "app.kubernetes.io/name": "web", "app.kubernetes.io/managed-by": "", "kubernetes.io/x": "", "argocd.argoproj.io/instance": "", "bad key": "", "bad": ""} {
		if o.Labels[key] != want {
			t.Errorf("label %s is %q, not %q", key, o.Labels[key], want)
		}
	}
	for key, want := range map[string]string{"config.linkerd.io/opaque-ports": "25", "retry.linkerd.io/http": "5xx", "isthmus.io/prefer": "", "service.beta.kubernetes.io/aws-load-balancer-type": ""} {
		if o.Annotations[key] != want {
			t.Errorf("annotation %s is %q, not %q", key, o.Annotations[key], want)
		}
	}
	if d := s.last.Verdicts[0].Detail; !strings.Contains(d, `"bad key"`) {
		t.Errorf("detail %q", d)
	}
}

// What users set stays, over a copy too; what was copied follows, and is put back.
func TestUsersKeys(t *testing.T) {
	e := export("web", "mirror", "http=80")
	e.Service.Labels, e.Service.Annotations = map[string]string{"team": "a", "tier": "gold"}, map[string]string{"retry.linkerd.io/http": "5xx"}
	s := newSim(cluster("east", e))
	s.settle(t)
	id := ID{"shop", "web-east"}
	edit := func(change func(o *Service)) {
		o := *s.Services[id]
		o.Labels, o.Annotations = maps.Clone(o.Labels), maps.Clone(o.Annotations)
		change(&o)
		s.Services[id] = &o
		s.settle(t)
	}
	edit(func(o *Service) {
		o.Labels["team"], o.Labels["mine"], o.Annotations["isthmus.io/prefer"] = "users", "yes", "east"
		delete(o.Labels, "tier")
		delete(o.Labels, mirroredLabel)
	})
	o := s.Services[id]
	if o.Labels["team"] != "users" || o.Labels["mine"] != "yes" || o.Annotations["isthmus.io/prefer"] != "east" || o.Labels["tier"] != "gold" || o.Labels[mirroredLabel] != "true" {
		t.Errorf("labels %v, annotations %v", o.Labels, o.Annotations)
	}
	e.Service.Labels, e.Service.Annotations = map[string]string{"team": "b"}, nil
	s.settle(t)
	o = s.Services[id]
	if _, has := o.Labels["tier"]; has || o.Labels["team"] != "users" || o.Annotations["retry.linkerd.io/http"] != "" || o.Annotations["isthmus.io/prefer"] != "east" {
		t.Errorf("after a change of the export: labels %v, annotations %v", o.Labels, o.Annotations)
	}
}

func TestCopiedBounds(t *testing.T) {
	labels, annotations := make(map[string]string), make(map[string]string)
	for i := range 100 {
		labels[fmt.Sprint("l", i)] = "x"
		annotations[fmt.Sprint("retry.linkerd.io/", i)] = strings.Repeat("x", 10<<10)
	}
	c := copyOf(&Service{Labels: labels, Annotations: annotations}, false)
	if len(c.labels) != maxCopied || len(c.annotations) != 3 || len(c.refused) != 11 {
		t.Errorf("%d labels, %d annotations, %d refused", len(c.labels), len(c.annotations), len(c.refused))
	}
}

func FuzzRecord(f *testing.F) {
	f.Add("label:a=0123456789,annotation:b/c=x,=,label:=")
	f.Fuzz(func(t *testing.T, text string) {
		labels, annotations := recorded(text)
		next, ours := overlay(map[string]string{"a": text, "users": "x"}, map[string]string{"a": "new"}, labels)
		if labels["users"] != hash("x", 10) && next["users"] != "x" {
			t.Errorf("a user's label is %q", next["users"])
		}
		if _, copied := labels["a"]; !copied && (next["a"] != text || ours["a"] != "") {
			t.Errorf("what was not copied is %q", next["a"])
		}
		_ = annotations
	})
}
