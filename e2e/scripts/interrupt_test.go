package scripts

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestInterrupted: after Ctrl-C, wherever, what this run has made is gone, and what was there before is there.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for _, shell := range shells(t) {
		for _, call := range []string{
			"step certificate create root", "docker network create", "k3d/west.yaml", "k3d/north.yaml", "get --raw", "exec k3d-isthmus-east", "make",
			"linkerd install", "linkerd rollout status", "kubectl kustomize", "k3d/shop", "isthmus link north", "isthmus clusters", "logs", "docker kill", "k3d cluster start",
		} {
			t.Run(shell+" "+strings.ReplaceAll(call, "/", " "), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.shell = shell
				must(t, w.model.write("", "images", "another:image"))
				must(t, w.model.write("172.30.9.9", "clusters", "another"))
				r := w.interrupt(call, syscall.SIGINT, "")
				if there := w.there(); r.code != 130 || !strings.Contains(r.err, "interrupted: removing what this run has made") || strings.Contains(r.err, "could not") || !slices.Equal(there, []string{"another", "another:image"}) {
					t.Errorf("it ends with %d: %s, leaves %q", r.code, r.err, there)
				}
			})
		}
	}
}

// TestInterruptedAgain: what a second run has not made stays after Ctrl-C; a second Ctrl-C ends the cleaning up; other
// signals end it as Ctrl-C does.
func TestInterruptedAgain(t *testing.T) {
	t.Parallel()
	t.Run("second run", func(t *testing.T) {
		w := newWorld(t)
		finished(t, w)
		must(t, os.Remove(w.model.path("clusters", "isthmus-north")))
		r := w.interrupt("make", syscall.SIGINT, "")
		want := slices.DeleteFunc(slices.Clone(everything), func(s string) bool { return s == "isthmus-north" })
		if there := w.there(); r.code != 130 || !slices.Equal(there, want) {
			t.Errorf("it ends with %d: %s, leaves %q", r.code, r.err, there)
		}
		finished(t, w)
	})
	for sig, code := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
		t.Run(sig.String(), func(t *testing.T) {
			w := newWorld(t)
			if r := w.interrupt("make", sig, ""); r.code != code || len(w.there()) > 0 {
				t.Errorf("it ends with %d: %s, leaves %q", r.code, r.err, w.there())
			}
			finished(t, w)
		})
	}
	t.Run("twice", func(t *testing.T) {
		w := newWorld(t)
		r := w.interrupt("make", syscall.SIGINT, "k3d cluster delete isthmus-east")
		if r.code != 130 || !strings.Contains(r.err, "interrupted again: "+w.root+"/manifests/k3d/destroy.sh removes what is left") || !w.model.has("clusters", "isthmus-west") {
			t.Errorf("it ends with %d: %s, leaves %q", r.code, r.err, w.there())
		}
		finished(t, w)
	})
	t.Run("what can't be removed", func(t *testing.T) {
		w := newWorld(t)
		must(t, w.model.write("k3d cluster delete isthmus-east", "fail"))
		r := w.interrupt("make", syscall.SIGINT, "")
		if want := fmt.Sprintf("could not remove cluster isthmus-east, docker network isthmus-demo: run %s/manifests/k3d/destroy.sh", w.root); r.code != 130 || !strings.Contains(r.err, want) {
			t.Errorf("it ends with %d: %s", r.code, r.err)
		}
		if r := w.run("destroy.sh"); r.code != 1 || !strings.Contains(r.err, "could not remove cluster isthmus-east, docker network isthmus-demo: see the messages above, and run this again") {
			t.Errorf("destroy.sh ends with %d: %s", r.code, r.err)
		}
		must(t, os.Remove(w.model.path("fail")))
		if r := w.run("destroy.sh"); r.code != 0 || len(w.there()) > 0 {
			t.Errorf("destroy.sh ends with %d: %s", r.code, r.err)
		}
	})
}
