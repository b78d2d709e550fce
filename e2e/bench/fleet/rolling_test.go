package fleet_test

import (
	"path/filepath"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/e2e/bench/fleet"
)

// TestRestart: every endpoint gets another address, and its Pod is there before it and after the one that it takes the place of.
func TestRestart(t *testing.T) {
	f, cfg := started(t, fleet.Config{Services: 1, Slices: 2, Endpoints: 3})
	k := clients(t, cfg)["application/json"]
	service := fleet.Service(0)
	r, err := f.Restart(service, 2)
	if err != nil {
		t.Fatal(err)
	}
	before, replaced := r.Addresses(), 0
	for done := false; !done; {
		was := r.Addresses()
		var one bool
		if one, done, err = r.Step(); err != nil {
			t.Fatal(err)
		}
		differ := 0
		for i, a := range r.Addresses() {
			if a != was[i] {
				differ++
			}
		}
		if one {
			replaced++
		}
		if one && differ != 1 || !one && differ != 0 {
			t.Errorf("%d endpoints differ after a step: %v", differ, one)
		}
		pods, err := k.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		list, err := k.DiscoveryV1().EndpointSlices("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		there := map[string]bool{}
		for _, p := range pods.Items {
			there[p.Name] = true
		}
		for _, s := range list.Items {
			for _, e := range s.Endpoints {
				if !there[e.TargetRef.Name] {
					t.Errorf("an endpoint has no Pod: %s", e.TargetRef.Name)
				}
			}
		}
		if n := len(pods.Items); n > 6+2*2+1 || done && n != 6 {
			t.Errorf("%d Pods", n)
		}
	}
	for _, a := range r.Addresses() {
		if slices.Contains(before, a) {
			t.Errorf("%v is still there", a)
		}
	}
	if replaced != 6 || r.Endpoints() != 6 {
		t.Errorf("%d of %d replaced", replaced, r.Endpoints())
	}
	if _, err := f.Restart("svc-00009", 1); err == nil {
		t.Error("an unknown Service could be restarted")
	}
}

// TestList counts what a fleet has.
func TestList(t *testing.T) {
	f, _ := started(t, fleet.Config{Linked: 2, Services: 3, Slices: 1, Endpoints: 4, Joined: true})
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := f.WriteKubeconfig(path); err != nil {
		t.Fatal(err)
	}
	if n, err := fleet.List(t.Context(), path); err != nil || n != 3*3*(1+1+4)+3 {
		t.Errorf("%d objects, %v", n, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := fleet.List(t.Context(), path); err == nil {
		t.Errorf("%d objects of a fleet that has ended", n)
	}
}
