package e2e

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/harness/kube"
)

// fault is something that is wrong, and how it is found.
type fault struct {
	name          string
	spoil, repair change
	check         []finding // by isthmus check
	explain       *verdict  // by isthmus explain
}

// finding is a line of isthmus check, and what it advises: patterns.
type finding struct{ line, hint string }

// verdict is what isthmus explain has for an address, or (empty) for the service.
type verdict struct {
	args, address, verdict string
	words                  []string // patterns of what a person sees
}

const noAnswer = "its API server does not answer"

// unchecked are the checks that a cluster's API server has to answer for.
func unchecked(cluster, why string, checks ...string) (list []finding) {
	for _, c := range checks {
		list = append(list, finding{"unchecked " + c + " " + cluster + ": " + why, ""})
	}
	return list
}

// unauthorizedOrClosed matches what a request for the version shows if the API server refuses the
// credentials. A kube-apiserver closes the connection together with its 401, so a request beside the
// refused one may fail with that instead.
const unauthorizedOrClosed = "(the API server answers 401 Unauthorized for its version" +
	"|.*: the API server closed the connection or refused the request .*)"

var faults = []fault{
	{
		name: "a kubeconfig that runs a command",
		spoil: write(inWest, strayLink("lab", "https://127.0.0.1:1", clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
			APIVersion: "client.authentication.k8s.io/v1", Command: "aws", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}})),
		repair: verb("unlink", "lab", "--yes"),
		check:  []finding{{"failure link-secret cluster-credentials-lab: can't be used: kubeconfig has an exec plugin .*", "write it anew .*"}},
	}, {
		name: "a token that was revoked",
		spoil: func(t *testing.T, w *brokenWorld) {
			must(t, w.south.Apply(t.Context(), kube.ServiceAccount("linkerd-multicluster", "old")))
			text := w.access(t, w.south, "old", month)
			must(t, w.south.CoreV1().ServiceAccounts("linkerd-multicluster").Delete(t.Context(), "old", metav1.DeleteOptions{}))
			must(t, w.west.Apply(t.Context(), kube.Link("emea", text)))
		},
		repair: verb("unlink", "emea", "--yes"),
		check: append(unchecked("emea", "its API server answers with an error", "rights", "trust-anchors", "pod-networks"),
			finding{"unchecked link-expiry emea: the API server refuses its credentials", "renew the link: isthmus link emea .*"},
			finding{
				"failure api emea: " + unauthorizedOrClosed,
				".*whether its credentials are still good; to renew the link: isthmus link emea .*",
			},
			finding{"failure link-state emea: it is unreachable: the API server refuses the token: .*Unauthorized; write the link Secret anew", "see the checks of its API server .*"}),
	}, {
		name: "a client certificate that has expired",
		spoil: func(t *testing.T, w *brokenWorld) {
			certificate, key := selfSigned(t, -time.Hour)
			text, err := w.south.Kubeconfig(w.south.Server(), clientcmdapi.AuthInfo{ClientCertificateData: certificate, ClientKeyData: key})
			must(t, err)
			must(t, w.west.Apply(t.Context(), kube.Link("latam", text)))
		},
		repair: verb("unlink", "latam", "--yes"),
		check: append(unchecked("latam", "its API server answers with an error", "rights", "trust-anchors", "pod-networks"),
			finding{"failure link-expiry latam: its client certificate has expired, at .*", "renew the link: isthmus link latam .*"},
			finding{
				"failure api latam: " + unauthorizedOrClosed,
				".*whether its credentials are still good; to renew the link: isthmus link latam .*",
			},
			finding{"failure link-state latam: it is unreachable: the API server refuses the client certificate, expired at .*Unauthorized; write the link Secret anew", "see the checks of its API server .*"}),
	}, {
		name:   "an API that is dead",
		spoil:  write(inWest, strayLink("apac", "https://127.0.0.1:1", clientcmdapi.AuthInfo{Token: "a-token-of-some-length"})),
		repair: verb("unlink", "apac", "--yes"),
		check: append(unchecked("apac", noAnswer, "clock-skew", "rights", "trust-anchors", "pod-networks"),
			finding{"failure api apac: its API server can't be reached: .*connection refused", "check the address and the network between the two; .*"},
			finding{"failure link-state apac: it is unreachable: .*connection refused", "see the checks of its API server .*"},
			finding{"warning link-secret cluster-credentials-apac: links cluster apac insecurely: .*", "write it anew with the API server's certificate authority"}),
	}, {
		name: "a right that a link lacks",
		spoil: func(t *testing.T, w *brokenWorld) {
			applyManifest(t, w.north, "link/remote-access.yaml", "[endpointslices]", "[leases]")
		},
		repair: func(t *testing.T, w *brokenWorld) { applyManifest(t, w.north, "link/remote-access.yaml") },
		check: []finding{
			{`failure rights north: not permitted: (?:list|watch|list, watch) endpointslices\.discovery\.k8s\.io \(the cluster does not join\)`, "in that cluster: kubectl apply -f manifests/link/remote-access.yaml"},
			{"failure link-state north: it is unreachable: endpointslices: .* is forbidden: .*", "see the checks of its API server and of rights; .*"},
		},
	}, {
		name: "two links to one cluster",
		spoil: func(t *testing.T, w *brokenWorld) {
			s := kube.Link("east", w.access(t, w.east, "isthmus-remote-access", month))
			s.Name = "younger"
			must(t, w.west.Apply(t.Context(), s))
		},
		repair: deleteLink("younger"),
		check:  []finding{{"failure link-secret younger: is one of two for cluster east: Secret cluster-credentials-east, .*", "delete the one that is not wanted, .*"}},
	}, {
		name: "a token that expires tomorrow",
		spoil: func(t *testing.T, w *brokenWorld) {
			must(t, w.west.Apply(t.Context(), kube.Link("east", w.access(t, w.east, "isthmus-remote-access", 20*time.Hour))))
		},
		repair: verb("link", "east", "--context", "east", "--apply"), // only once there is one link
		check:  []finding{{"warning link-expiry east: its token expires in (19|20) hours, at .*", "renew the link: isthmus link east --context CONTEXT --apply"}},
	}, {
		name: "a cordon that was forgotten",
		spoil: func(t *testing.T, w *brokenWorld) {
			s := kube.Link("south", w.access(t, w.south, "isthmus-remote-access", month))
			s.Annotations["isthmus.io/cordon"] = "true"
			must(t, w.west.Apply(t.Context(), s))
		},
		repair: verb("uncordon", "south", "--yes"),
		check:  []finding{{"warning link-state south: it is ready and withdrawn: cordoned by annotation .* of Secret linkerd/cluster-credentials-south", "if it is no longer wanted: isthmus uncordon south"}},
	}, {
		name: "a cordon with a typo",
		spoil: func(t *testing.T, w *brokenWorld) {
			s := kube.Link("north", w.access(t, w.north, "isthmus-remote-access", month))
			s.Annotations["isthmus.io/cordon"] = "ture"
			must(t, w.west.Apply(t.Context(), s))
		},
		repair: verb("uncordon", "north", "--yes"),
		check:  []finding{{`failure link-secret cluster-credentials-north: annotation isthmus\.io/cordon: "ture" is none of false, last-resort, true; it counts as absent`, "correct the annotation, or remove it: kubectl edit secret -n linkerd cluster-credentials-north; .*"}},
	}, {
		name: "trust anchors that differ",
		spoil: func(t *testing.T, w *brokenWorld) {
			must(t, w.south.Apply(t.Context(), w.anchors(anchorPEM(t, 3*month))))
		},
		repair: func(t *testing.T, w *brokenWorld) { must(t, w.south.Apply(t.Context(), w.anchors(w.anchor))) },
		check:  []finding{{"failure trust-anchors south: no trust anchor in common .*", "rotate trust anchors in all clusters alike: .*"}},
	}, {
		name: "Pod networks that overlap",
		spoil: func(t *testing.T, w *brokenWorld) {
			must(t, w.east.Apply(t.Context(), w.node("east-2", "10.244.2.0/25"), kube.Service("shop", "web"), kube.Slice("shop", "web", "a", kube.Endpoint("10.244.2.7"))))
			must(t, w.west.Apply(t.Context(), kube.Service("shop", "web"), kube.Slice("shop", "web", "a", kube.Endpoint("10.244.2.7")), kube.Federated("shop", "web-federated", "web", "web@east")))
		},
		repair: func(t *testing.T, w *brokenWorld) {
			must(t, w.east.CoreV1().Nodes().Delete(t.Context(), "east-2", metav1.DeleteOptions{}))
			must(t, w.east.Apply(t.Context(), kube.Slice("shop", "web", "a", kube.Endpoint("10.245.0.7"))))
		},
		check:   []finding{{`warning pod-networks east: Pod CIDRs overlap: 10\.244\.2\.0/25 overlaps 10\.244\.2\.0/23 of local`, "federated Services need flat networks, .*"}},
		explain: &verdict{"web-federated", "10.244.2.7:8080", "taken", []string{`taken \(1\): if these are different Pods, the networks of the clusters overlap`}},
	}, {
		name:    "a cluster's name with a typo",
		spoil:   both(member("cart", "10.245.0.30"), write(inWest, kube.Federated("shop", "cart-federated", "", "cart@eest"))),
		repair:  write(inWest, kube.Federated("shop", "cart-federated", "", "cart@east")),
		check:   []finding{{"failure members shop/cart-federated: shop/cart of cluster eest does not serve: cluster is unlinked", "correct the cluster's name in the annotations of Service shop/cart-federated, .*"}},
		explain: &verdict{args: "cart-federated", words: []string{`eest +shop/cart +unlinked`, `eest is unlinked: no link Secret names the cluster`}},
	}, {
		name:    "a Service that has another name there",
		spoil:   both(member("payment", "10.245.0.31"), write(inWest, kube.Federated("shop", "pay-federated", "", "pay@east"))),
		repair:  write(inWest, kube.Federated("shop", "pay-federated", "", "payment@east")),
		check:   []finding{{"failure members shop/pay-federated: shop/pay of cluster east does not serve: no such Service in the cluster", "create the Service there, or take .*"}},
		explain: &verdict{args: "pay-federated", words: []string{`east +shop/pay .* no such Service in the cluster`}},
	}, {
		name: "a port that a member lacks",
		spoil: both(member("search", "10.245.0.32"), write(inEast, onPort(kube.Service("shop", "search"), 8080)),
			write(inWest, kube.Federated("shop", "search-federated", "", "search@east"))),
		repair: func(t *testing.T, w *brokenWorld) { // a port with another number is added by apply, not put in its place
			must(t, w.east.CoreV1().Services("shop").Delete(t.Context(), "search", metav1.DeleteOptions{}))
			must(t, w.east.Apply(t.Context(), kube.Service("shop", "search")))
			must(t, w.east.Apply(t.Context(), kube.Slice("shop", "search", "a", kube.Endpoint("10.245.0.32"))))
		},
		check: []finding{{`warning ports shop/search-federated: shop/search of cluster east has no port 80 \(http is 8080 there\): .*`, "give both Services the same port numbers; .*"}},
	}, {
		name:   "a preference with a typo",
		spoil:  both(member("near", "10.245.0.33"), write(inWest, annotated(kube.Federated("shop", "near-federated", "", "near@east"), "isthmus.io/prefer", "locl, any"))),
		repair: write(inWest, annotated(kube.Federated("shop", "near-federated", "", "near@east"), "isthmus.io/prefer", "local, any")),
		check:  []finding{{`warning definitions shop/near-federated: annotation isthmus\.io/prefer: no cluster locl is linked`, "correct the name in the annotation, .*"}},
	},

	// These only explain can find.
	{
		name: "a target port that no container has",
		spoil: both(write(inEast, selecting("api", "web"), selectedPod("api", "10.245.0.20", corev1.ConditionTrue)),
			write(inWest, kube.Federated("shop", "api-federated", "", "api@east"))),
		repair:  write(inEast, selecting("api", "http")),
		explain: &verdict{"api-federated", "10.245.0.20", "no-such-port", []string{`no-such-port \(1\): no container of the Pod has a TCP port with the name of the Service's targetPort`}},
	}, {
		name: "Pods that are not ready",
		spoil: both(write(inEast, selecting("orders", "http"), selectedPod("orders", "10.245.0.21", corev1.ConditionFalse)),
			write(inWest, kube.Service("shop", "orders"), kube.Slice("shop", "orders", "a", kube.Endpoint("10.244.0.21")), kube.Federated("shop", "orders-federated", "orders", "orders@east"))),
		repair:  write(inEast, selectedPod("orders", "10.245.0.21", corev1.ConditionTrue)),
		explain: &verdict{"orders-federated --address 10.245.0.21", "10.245.0.21:8080", "not-ready", []string{`not-ready +Pod shop/orders-1`, `kubectl describe pod, in its cluster`}},
	}, {
		name: "traffic that has to stay on its node",
		spoil: write(inWest, kube.Pod("shop", "cache-1", "default"), nodeLocal("cache", corev1.ServiceInternalTrafficPolicyLocal),
			kube.Slice("shop", "cache", "a", kube.PodEndpoint("10.244.0.22", "shop", "cache-1"))),
		repair:  write(inWest, nodeLocal("cache", corev1.ServiceInternalTrafficPolicyCluster)),
		explain: &verdict{"cache --node west-2", "10.244.0.22:8080", "other-node", []string{`internalTrafficPolicy: node-1`, `set the Service's internalTrafficPolicy to Cluster`}},
	}, {
		name:    "hints to other zones",
		spoil:   write(inWest, kube.Service("shop", "geo"), kube.Slice("shop", "geo", "a", hinted("10.244.0.23", "zone-1"), hinted("10.244.2.23", "zone-2"))),
		repair:  write(inWest, kube.Slice("shop", "geo", "a", hinted("10.244.0.23", ""), hinted("10.244.2.23", ""))),
		explain: &verdict{"geo --node west-2 --address 10.244.0.23", "10.244.0.23:8080", "hinted-to-other-zones", []string{`other zones than the client's: zone-1`, `take trafficDistribution`}},
	}, {
		name:    "IPv6 alone",
		spoil:   write(inWest, kube.Service("shop", "six"), ipv6("six", "fd00::24")),
		repair:  write(inWest, kube.Slice("shop", "six", "v4", kube.Endpoint("10.244.0.24"))),
		explain: &verdict{"six", "[fd00::24]:8080", "ipv6-off", []string{`run the gateway with --enable-ipv6`}},
	}, {
		name:    "a Pod that is gone",
		spoil:   write(inWest, kube.Service("shop", "ghost"), kube.Slice("shop", "ghost", "a", kube.PodEndpoint("10.244.0.25", "shop", "ghost-1"))),
		repair:  write(inWest, kube.Pod("shop", "ghost-1", "default")),
		explain: &verdict{"ghost", "10.244.0.25:8080", "pod-not-known", []string{`see whether that Pod or ExternalWorkload exists in its cluster`}},
	},
}
