package reach

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

func documentedRole(t *testing.T) *rbacv1.Role {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	must(t, err)
	_, after, found := strings.Cut(string(text), "this Role is enough:\n\n```yaml\n")
	block, _, closed := strings.Cut(after, "\n```")
	if !found || !closed {
		t.Fatal("docs/operations.md has no Role")
	}
	role := new(rbacv1.Role)
	must(t, yaml.UnmarshalStrict([]byte(block), role))
	return role
}

// TestRights checks that the documented Role suffices for SPDY, and that websockets need one more
// permission. The error for a missing permission must name that permission.
func TestRights(t *testing.T) {
	w := newWorld(t)
	w.gateway(t, isthmusPod("isthmus-0"))
	documented := documentedRole(t)
	websockets := documented.DeepCopy()
	websockets.Rules[1].Verbs = append(websockets.Rules[1].Verbs, "get")
	tokens := map[string]string{
		"documented": w.grant(t, "documented", documented.Rules),
		"websockets": w.grant(t, "websockets", websockets.Rules),
		"lister":     w.grant(t, "lister", documented.Rules[:1]),
		"nobody":     w.grant(t, "nobody", nil),
		"wrong":      "not-a-token",
	}
	w.kubeconfig(t, tokens)
	await(t, "the API server applies the permissions", func() error {
		if r := w.run(t, "clusters", "--context", "documented"); r.code != 0 {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
	const kubernetes = "kubernetes.default.svc.cluster.local:443"
	for _, context := range []string{"documented", "websockets"} {
		for _, verb := range []string{
			"clusters",
			"clusters --pod isthmus-0",
			"services",
			"get " + kubernetes + " --once",
			"profile " + kubernetes + " --once",
		} {
			w.expect(t, expectation{verb + " --context " + context, 0, ".", ""})
		}
	}
	const enough = ` in namespace linkerd\. docs/operations.md contains a suitable Role\n$`
	w.expect(
		t,
		expectation{
			"clusters --context lister",
			1,
			"",
			`the API server of context lister does not allow you to forward ports of Pods: .*\n  ` +
				`You need permission to create pods/portforward` + enough,
		},
		expectation{"get web:80 --context lister", 1, "", `You need permission to create pods/portforward`},
		expectation{
			"clusters --context nobody",
			1,
			"",
			`does not allow you to list Pods: .*\n  You need permission to list pods` + enough,
		},
		expectation{
			"clusters --context nobody --pod isthmus-0",
			1,
			"",
			`does not allow you to read Pods: .*\n  You need permission to get pods` + enough,
		},
		expectation{
			"clusters --context wrong",
			1,
			"",
			`context wrong rejects the credentials in the kubeconfig\n  Log in again`,
		},
	)
	for context, token := range tokens {
		for _, verb := range []string{"clusters", "get web:80 --timeout 1s"} {
			if r := w.run(t, words(verb+" --context "+context)...); strings.Contains(r.stdout+r.stderr, token) {
				t.Errorf("the token of %s is in %+v", context, r)
			}
		}
	}
}

// TestLost checks that a stream reports the loss of its connection, and that clusters --watch
// switches to another replica.
func TestLost(t *testing.T) {
	w := newWorld(t)
	w.gateway(t, isthmusPod("isthmus-0"))
	out := &lines{}
	cmd := exec.CommandContext(t.Context(), w.command, "get", "kubernetes.default.svc.cluster.local:443")
	cmd.Env, cmd.Stdout, cmd.Stderr = []string{"HOME=" + w.home}, out, out
	must(t, cmd.Start())
	await(t, "the first state", func() error { return out.has("kubernetes.default.svc") })
	w.node.Drop()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err == nil || out.has(`^(?s).*Unavailable: .*`) != nil {
			t.Errorf("%v: %s", err, out)
		}
	case <-time.After(time.Minute):
		t.Fatal("the stream continues")
	}
	w.gateway(t, isthmusPod("isthmus-1"))
	out = &lines{}
	cmd = exec.CommandContext(t.Context(), w.command, "clusters", "--watch", "-o", "json")
	cmd.Env, cmd.Stdout, cmd.Stderr = []string{"HOME=" + w.home}, out, out
	must(t, cmd.Start())
	await(t, "the first replica", func() error { return out.has(regexp.QuoteMeta(`"gateway":"linkerd/isthmus-0"`)) })
	must(t, w.node.Delete(t.Context(), "linkerd", "isthmus-0"))
	await(t, "the second replica", func() error { return out.has(regexp.QuoteMeta(`"gateway":"linkerd/isthmus-1"`)) })
	must(t, cmd.Process.Signal(os.Interrupt))
	must(t, cmd.Wait())
}
