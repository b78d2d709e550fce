package reach

import (
	"fmt"
	"regexp"
	"testing"

	"k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/harness/kube"
)

// shows waits until a run of the isthmus command prints this.
func (w *world) shows(t *testing.T, pattern, args string) {
	t.Helper()
	await(t, "isthmus "+args, func() error {
		if r := w.run(t, words(args)...); !regexp.MustCompile(pattern).MatchString(r.stdout) {
			return fmt.Errorf("no %s in %+v", pattern, r)
		}
		return nil
	})
}

// TestCheckReplicas: check asks every replica, and shows whether they agree, what one of them finds alone, that one
// can't be asked, and that one is not ready. cordon waits for each of them, or for the one that --pod names.
func TestCheckReplicas(t *testing.T) {
	w := newWorld(t)
	w.gateway(t, isthmusPod("isthmus-0"))
	w.gateway(t, isthmusPod("isthmus-1"))
	const agree = `(?m)^  \S+ +2 replicas agree$`
	w.shows(t, agree, "check")
	w.shows(t, `(?m)^  \S+ +one of them writes EndpointSlices: linkerd/isthmus-[01]$`, "check")

	dead, err := kube.Kubeconfig("gone", api.Cluster{Server: "https://127.0.0.1:1"}, api.AuthInfo{Token: "t"})
	must(t, err)
	must(t, w.client.Apply(t.Context(), kube.Link("gone", dead)))
	w.shows(t, `(?m)^  \S+ +gone: it is unreachable: .*refused$`, "check")
	w.shows(t, agree, "check")
	w.expect(t, expectation{"cordon gone --yes", 0, "the gateway follows: endpoints of gone leave all services at once", ""})

	w.gateway(t, isthmusPod("isthmus-2"), "-controller-namespace=other")
	w.shows(t, `(?m)^  \S+ +the replicas differ: .*link-state gone`, "check")
	w.expect(t,
		expectation{"check", 1, `(?m)^  \S+ +gone: it is unreachable: .* \(linkerd/isthmus-0\)$`, `what to do is shown beneath each`},
		expectation{"check --pod isthmus-2 -o json", 0, `"gateways":\[\{"gateway":"linkerd/isthmus-2",`, ""},
		expectation{"uncordon gone --yes --timeout 2s", 1, "updated link Secret", "linkerd/isthmus-2: it has no such link: does it read link Secrets of namespace linkerd"},
		expectation{"cordon gone --yes --pod isthmus-1", 0, "the gateway follows", ""},
	)
	must(t, w.node.Delete(t.Context(), "linkerd", "isthmus-2"))
	must(t, w.node.Run(t.Context(), isthmusPod("isthmus-3"))) // in which nothing listens
	w.expect(t,
		expectation{"check", 1, `(?m)^  \S+ +linkerd/isthmus-3: port 9996 of Pod linkerd/isthmus-3 can't be reached: `, "checks have failed"},
		expectation{"cordon gone --yes", 1, "", "what this leaves can't be found out: port 9996 of Pod linkerd/isthmus-3 can't be reached: "},
	)
	must(t, w.node.SetReady(t.Context(), "linkerd", "isthmus-3", false))
	w.expect(t,
		expectation{"check --wait 6s", 1, `(?m)^  \S+ +linkerd/isthmus-3: its Pod is not ready: running, not ready\n      \S+ kubectl describe pod -n linkerd isthmus-3 shows why; --pod isthmus-3 `, `isthmus check: waiting, for 6s at most: .*linkerd/isthmus-3: its Pod is not ready`},
		expectation{"uncordon gone --yes --timeout 2s", 1, "updated link Secret", `linkerd/isthmus-3: Pod linkerd/isthmus-3 is not ready: running, not ready`},
	)
	w.shows(t, agree, "check")
}
