package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/internal/adminapi"
)

const month = 30 * 24 * time.Hour

// brokenWorld is a checkedWorld with two more linked clusters and many simultaneous faults.
type brokenWorld struct {
	*checkedWorld
	north, south *kube.Client
	gateway      *harness.Replica
	contexts     string // kubeconfig whose contexts are west, the current one, and east
}

// newBrokenWorld causes all faults before the replica starts.
func newBrokenWorld(t *testing.T, faults []fault) *brokenWorld {
	w := &brokenWorld{checkedWorld: newCheckedWorld(t, "north", "south")}
	w.north, w.south = w.more[0], w.more[1]
	must(t, w.west.Apply(
		t.Context(),
		w.node("west-2", "10.244.2.0/24"),
		w.node("west-3", "10.244.3.0/24"),
		kube.Link("north", w.access(t, w.north, "isthmus-remote-access", month)),
		kube.Link("south", w.access(t, w.south, "isthmus-remote-access", month)),
	))
	w.contexts = w.writeContexts(t)
	for _, f := range faults {
		f.spoil(t, w)
	}
	w.gateway = startGateway(t, harness.ReplicaConfig{Kubeconfig: w.kubeconfig})
	return w
}

func (w *brokenWorld) writeContexts(t *testing.T) string {
	t.Helper()
	all := clientcmdapi.NewConfig()
	for _, c := range []*kube.Client{w.west, w.east} {
		text, err := c.Kubeconfig(c.Server(), c.Admin())
		must(t, err)
		one, err := clientcmd.Load(text)
		must(t, err)
		maps.Copy(all.Clusters, one.Clusters)
		maps.Copy(all.AuthInfos, one.AuthInfos)
		maps.Copy(all.Contexts, one.Contexts)
	}
	all.CurrentContext = "west"
	path := filepath.Join(t.TempDir(), "contexts")
	must(t, clientcmd.WriteToFile(*all, path))
	return path
}

// verb returns a change that runs an isthmus command as suggested to the user.
func verb(args ...string) change {
	return func(t *testing.T, w *brokenWorld) {
		t.Helper()
		args := append(slices.Clone(args), "--kubeconfig", w.contexts, "--admin", w.gateway.MetricsAddr())
		if args[0] == "unlink" {
			args = args[:len(args)-2] // this command does not query replicas
		}
		if r := runVerb(t, w.isthmus, args...); r.code != 0 {
			t.Errorf("isthmus %v: exit code %d\n%s%s", args, r.code, r.stdout, r.stderr)
		}
	}
}

// access returns a kubeconfig for an account in a linked cluster. The token is valid for the given
// time.
func (w *brokenWorld) access(t *testing.T, c *kube.Client, account string, good time.Duration) []byte {
	t.Helper()
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(good.Seconds()))},
	}
	answer, err := c.CoreV1().
		ServiceAccounts("linkerd-multicluster").
		CreateToken(t.Context(), account, request, metav1.CreateOptions{})
	must(t, err)
	text, err := c.Kubeconfig(c.Server(), clientcmdapi.AuthInfo{Token: answer.Status.Token})
	must(t, err)
	return text
}

type change func(*testing.T, *brokenWorld)

func write(to func(*brokenWorld) *kube.Client, objects ...runtime.Object) change {
	return func(t *testing.T, w *brokenWorld) {
		t.Helper()
		must(t, to(w).Apply(t.Context(), objects...))
	}
}

func inWest(w *brokenWorld) *kube.Client { return w.west }
func inEast(w *brokenWorld) *kube.Client { return w.east }

func both(all ...change) change {
	return func(t *testing.T, w *brokenWorld) {
		t.Helper()
		for _, do := range all {
			do(t, w)
		}
	}
}

func deleteLink(secret string) change {
	return func(t *testing.T, w *brokenWorld) {
		t.Helper()
		must(t, w.west.CoreV1().Secrets(kube.LinkNamespace).Delete(t.Context(), secret, metav1.DeleteOptions{}))
	}
}

func strayLink(name, server string, user clientcmdapi.AuthInfo) *corev1.Secret {
	text, err := kube.Kubeconfig(name, clientcmdapi.Cluster{Server: server, InsecureSkipTLSVerify: true}, user)
	if err != nil {
		panic(err)
	}
	return kube.Link(name, text)
}

func selectedPod(app, ip string, ready corev1.ConditionStatus) *unstructured.Unstructured {
	pod := kube.Pod("shop", app+"-1", "default")
	pod.Labels = map[string]string{"app": app}
	pod.Spec.NodeName = "east-1"
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: kube.Port}}
	u, err := kube.Unstructured(pod)
	if err != nil {
		panic(err)
	}
	u.Object["status"] = map[string]any{
		"phase": "Running", "podIP": ip, "podIPs": []any{map[string]any{"ip": ip}},
		"conditions": []any{map[string]any{"type": "Ready", "status": string(ready)}},
	}
	return u
}

func selecting(app, targetPort string) *corev1.Service {
	s := kube.Service("shop", app)
	s.Spec.Selector = map[string]string{"app": app}
	s.Spec.Ports[0].TargetPort = intstr.FromString(targetPort)
	return s
}

func onPort(s *corev1.Service, port int32) *corev1.Service {
	s.Spec.Ports[0].Port = port
	return s
}

func annotated(s *corev1.Service, name, value string) *corev1.Service {
	s.Annotations[name] = value
	return s
}

// member returns a change that writes a Service with an endpoint to east.
func member(name, ip string) change {
	return write(inEast, kube.Service("shop", name), kube.Slice("shop", name, "a", kube.Endpoint(ip)))
}

// TestBroken causes many faults at once. The commands isthmus check and isthmus explain must report
// each fault with a hint, and report nothing after all hints have been followed.
func TestBroken(t *testing.T) {
	t.Parallel()
	w := newBrokenWorld(t, faults)
	await(t, "check finds all faults that it can detect", func() error { return w.checked(t, faults, 1) })
	for _, f := range faults {
		if f.explain != nil {
			await(t, f.name, func() error { return w.explained(t, f.explain) })
		}
	}
	for _, f := range faults {
		f.repair(t, w)
	}
	await(t, "check finds nothing", func() error { return w.checked(t, nil, 0) })
	for _, f := range faults {
		if f.explain != nil {
			await(t, f.name, func() error {
				if r := w.explain(t, f.explain); r.code != 0 {
					return fmt.Errorf("exit code %d\n%s", r.code, r.stdout)
				}
				return nil
			})
		}
	}
}

// checked returns an error unless isthmus check reports exactly these faults.
func (w *brokenWorld) checked(t *testing.T, faults []fault, want int) error {
	code, bad, out := w.check(t, "--admin", w.gateway.MetricsAddr())
	var errs []error
	if code != want {
		errs = append(errs, fmt.Errorf("exit code %d", code))
	}
	for _, f := range faults {
		for _, x := range f.check {
			i := slices.IndexFunc(bad, func(line string) bool { return matches(x.line, line) })
			if i < 0 {
				errs = append(errs, fmt.Errorf("%s: not found: %s", f.name, x.line))
				continue
			}
			if !slices.ContainsFunc(out.Results, func(r adminapi.CheckResult) bool {
				return bad[i] == fmt.Sprintf("%s %s %s: %s", r.Level, r.Check, r.Object, r.Text) &&
					matches(x.hint, r.Hint)
			}) {
				errs = append(errs, fmt.Errorf("%s: %s: no hint %s", f.name, bad[i], x.hint))
			}
			bad = slices.Delete(bad, i, i+1)
		}
	}
	for _, line := range bad {
		errs = append(errs, errors.New("unexpected finding: "+line))
	}
	return errors.Join(errs...)
}

func (w *brokenWorld) explain(t *testing.T, v *verdict, args ...string) verbRun {
	t.Helper()
	args = slices.Concat([]string{"explain", "--admin", w.gateway.MetricsAddr()}, args, strings.Fields("shop/"+v.args))
	return runVerb(t, w.isthmus, args...)
}

// explained returns an error unless isthmus explain returns the verdict in its JSON and its text
// output.
func (w *brokenWorld) explained(t *testing.T, v *verdict) error {
	var page adminapi.Explanation
	r := w.explain(t, v, "-o", "json")
	if err := json.Unmarshal([]byte(r.stdout), &page); err != nil {
		return fmt.Errorf("%w: %s%s", err, r.stdout, r.stderr)
	}
	has := func(a adminapi.ExplainedAddress) bool { return a.Address == v.address && a.Verdict == v.verdict }
	if v.address != "" && !slices.ContainsFunc(page.Addresses, has) {
		return fmt.Errorf("%s is not %s in %+v", v.address, v.verdict, page.Addresses)
	}
	if v.address == "" && len(page.Addresses) > 0 {
		return fmt.Errorf("unexpected addresses: %+v", page.Addresses)
	}
	text := w.explain(t, v).stdout
	for _, words := range v.words {
		if !regexp.MustCompile(words).MatchString(text) {
			return fmt.Errorf("no %s in\n%s", words, text)
		}
	}
	return nil
}

func matches(pattern, text string) bool {
	return regexp.MustCompile(`^(?:` + pattern + `)$`).MatchString(text)
}

// checkedWorld consists of a local and a linked cluster with everything that isthmus check
// requires, and without any fault.
type checkedWorld struct {
	*testing.T
	west, east *kube.Client
	eastServer *harness.Cluster
	more       []*kube.Client // additional clusters
	kubeconfig string         // kubeconfig of a replica
	isthmus    string
	anchor     string
}

// newCheckedWorld starts the clusters. Additional clusters contain the same objects, but are not
// linked.
func newCheckedWorld(t *testing.T, more ...string) *checkedWorld {
	servers := startClusters(
		t,
		[]string{"namespace", "serviceaccount", "token", "endpointslice"},
		append([]string{"west", "east"}, more...)...)
	w := &checkedWorld{
		T:          t,
		west:       client(t, servers[0]),
		east:       client(t, servers[1]),
		eastServer: servers[1],
		anchor:     anchorPEM(t, 365*24*time.Hour),
	}
	path, err := harness.Isthmus.Path(t.Context())
	must(t, err)
	w.isthmus, err = filepath.Abs(path)
	must(t, err)
	ctx := t.Context()
	must(
		t,
		w.west.Apply(
			ctx,
			kube.Namespace("linkerd"),
			kube.Namespace("shop"),
			w.node("west-1", "10.244.0.0/24"),
			w.anchors(w.anchor),
		),
	)
	applyManifest(t, w.west, "install/rbac.yaml")
	for i, server := range servers[1:] {
		linked, cidr := w.east, fmt.Sprintf("10.%d.0.0/24", 245+i)
		if i > 0 {
			linked = client(t, server)
			w.more = append(w.more, linked)
		}
		must(t, linked.Apply(
			ctx,
			kube.Namespace("linkerd"),
			kube.Namespace("linkerd-multicluster"),
			kube.Namespace("shop"),
			w.node(server.Name()+"-1", cidr),
			w.anchors(w.anchor),
		))
		applyManifest(t, linked, "link/remote-access.yaml")
	}
	w.kubeconfig = gatewayKubeconfig(t, w.west)
	must(t, w.west.Apply(ctx, kube.Link("east", w.link(w.east.Server(), w.eastServer.REST().CAData, 30*24*time.Hour))))
	return w
}

func (w *checkedWorld) node(name, cidr string) *corev1.Node {
	n := kube.Node(name, "zone-1")
	n.Spec.PodCIDR, n.Spec.PodCIDRs = cidr, []string{cidr}
	return n
}

func (w *checkedWorld) anchors(text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{
			APIVersion: "v1",
			Kind:       "ConfigMap",
		}, ObjectMeta: metav1.ObjectMeta{Namespace: "linkerd", Name: "linkerd-identity-trust-roots"},
		Data: map[string]string{"ca-bundle.crt": text},
	}
}

// link returns a kubeconfig for the linked cluster with the given server. The token is valid for
// the given time.
func (w *checkedWorld) link(server string, authority []byte, good time.Duration) []byte {
	w.Helper()
	seconds := int64(good.Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := w.east.CoreV1().
		ServiceAccounts("linkerd-multicluster").
		CreateToken(w.Context(), "isthmus-remote-access", request, metav1.CreateOptions{})
	must(w.T, err)
	text, err := kube.Kubeconfig(
		"east",
		clientcmdapi.Cluster{Server: server, CertificateAuthorityData: authority},
		clientcmdapi.AuthInfo{Token: answer.Status.Token},
	)
	must(w.T, err)
	return text
}

func (w *checkedWorld) check(t *testing.T, args ...string) (code int, bad []string, out adminapi.CheckOutput) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), w.isthmus, append([]string{"check", "-o", "json"}, args...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(stdout.Bytes(), &out); err != nil {
		t.Fatalf("%v: %s%s", err, &stdout, &stderr)
	}
	for _, r := range out.Results {
		if r.Level == adminapi.CheckOK {
			continue
		}
		bad = append(bad, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Level, r.Check, r.Object))+": "+r.Text)
		if r.Hint == "" && r.Level != adminapi.CheckUnchecked {
			t.Errorf("no hint: %+v", r)
		}
	}
	slices.Sort(bad)
	return cmd.ProcessState.ExitCode(), bad, out
}

func anchorPEM(t *testing.T, good time.Duration) string {
	t.Helper()
	certificate, _ := selfSigned(t, good)
	return string(certificate)
}

// selfSigned returns a self-signed certificate, valid for the given time from now on, and its key
// as PEM.
func selfSigned(t *testing.T, good time.Duration) (certificate, key []byte) {
	t.Helper()
	made, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		NotBefore:    now.Add(-48 * time.Hour),
		NotAfter:     now.Add(good),
		IsCA:         true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, made.Public(), made)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(made)
	must(t, err)
	return pem.EncodeToMemory(
			&pem.Block{Type: "CERTIFICATE", Bytes: der},
		), pem.EncodeToMemory(
			&pem.Block{Type: "PRIVATE KEY", Bytes: private},
		)
}

// fault is a fault with the expected reports.
type fault struct {
	name          string
	spoil, repair change
	check         []finding // expected lines of isthmus check
	explain       *verdict  // expected verdict of isthmus explain
}

type finding struct{ line, hint string }

// verdict is the expected result of isthmus explain for an address or, if the address is empty, for
// the service.
type verdict struct {
	args, address, verdict string
	words                  []string // patterns for the text output
}

const noAnswer = "the API server does not answer"

// unchecked returns findings for the checks that need a response from a cluster's API server.
func unchecked(cluster, why string, checks ...string) (list []finding) {
	for _, c := range checks {
		list = append(list, finding{"unchecked " + c + " " + cluster + ": " + why, ""})
	}
	return list
}

// unauthorizedOrClosed matches the error of a version request when the API server rejects the
// credentials. A kube-apiserver closes the connection together with its 401, so that a parallel
// request may fail with that error instead.
const unauthorizedOrClosed = "(the API server responded with 401 Unauthorized to a version request" +
	"|.*: the API server closed the connection or refused the request .*)"

var faults = []fault{
	{
		name: "a kubeconfig that runs a command",
		spoil: write(
			inWest,
			strayLink("lab", "https://127.0.0.1:1", clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
				APIVersion:      "client.authentication.k8s.io/v1",
				Command:         "aws",
				InteractiveMode: clientcmdapi.NeverExecInteractiveMode}}),
		),
		repair: verb("unlink", "lab", "--yes"),
		check: []finding{
			{
				"failure link-secret cluster-credentials-lab: cannot be used: kubeconfig contains an exec plugin .*",
				"recreate the Secret .*",
			},
		},
	}, {
		name: "a revoked token",
		spoil: func(t *testing.T, w *brokenWorld) {
			must(t, w.south.Apply(t.Context(), kube.ServiceAccount("linkerd-multicluster", "old")))
			text := w.access(t, w.south, "old", month)
			must(
				t,
				w.south.CoreV1().
					ServiceAccounts("linkerd-multicluster").
					Delete(t.Context(), "old", metav1.DeleteOptions{}),
			)
			must(t, w.west.Apply(t.Context(), kube.Link("emea", text)))
		},
		repair: verb("unlink", "emea", "--yes"),
		check: append(
			unchecked("emea", "the API server responds with an error", "rights", "trust-anchors", "pod-networks"),
			finding{
				"unchecked link-expiry emea: the API server rejects its credentials",
				"renew the link: isthmus link emea .*",
			},
			finding{
				"failure api emea: " + unauthorizedOrClosed,
				".*that the credentials are still valid; to renew the link: isthmus link emea .*",
			},
			finding{
				"failure link-state emea: it is unreachable: the API server rejects the token: .*Unauthorized; " +
					"recreate " +
					"the link Secret",
				"see the api and rights checks.*",
			},
		),
	}, {
		name: "an expired client certificate",
		spoil: func(t *testing.T, w *brokenWorld) {
			certificate, key := selfSigned(t, -time.Hour)
			text, err := w.south.Kubeconfig(
				w.south.Server(),
				clientcmdapi.AuthInfo{ClientCertificateData: certificate, ClientKeyData: key},
			)
			must(t, err)
			must(t, w.west.Apply(t.Context(), kube.Link("latam", text)))
		},
		repair: verb("unlink", "latam", "--yes"),
		check: append(
			unchecked("latam", "the API server responds with an error", "rights", "trust-anchors", "pod-networks"),
			finding{
				"failure link-expiry latam: its client certificate expired at .*",
				"renew the link: isthmus link latam .*",
			},
			finding{
				"failure api latam: " + unauthorizedOrClosed,
				".*that the credentials are still valid; to renew the link: isthmus link latam .*",
			},
			finding{
				"failure link-state latam: it is unreachable: the API server rejects the client certificate, expired " +
					"at .*Unauthorized; recreate the link Secret",
				"see the api and rights checks.*",
			},
		),
	}, {
		name: "an unreachable API server",
		spoil: write(
			inWest,
			strayLink("apac", "https://127.0.0.1:1", clientcmdapi.AuthInfo{Token: "a-token-of-some-length"}),
		),
		repair: verb("unlink", "apac", "--yes"),
		check: append(
			unchecked("apac", noAnswer, "clock-skew", "rights", "trust-anchors", "pod-networks"),
			finding{
				"failure api apac: the API server cannot be reached: .*connection refused",
				"check the address, and the network between Isthmus and the API server; .*",
			},
			finding{
				"failure link-state apac: it is unreachable: .*connection refused",
				"see the api and rights checks.*",
			},
			finding{
				"warning link-secret cluster-credentials-apac: links cluster apac insecurely: .*",
				"recreate the Secret with the API server's certificate authority",
			},
		),
	}, {
		name: "a missing permission of a link",
		spoil: func(t *testing.T, w *brokenWorld) {
			applyManifest(t, w.north, "link/remote-access.yaml", "[endpointslices]", "[leases]")
		},
		repair: func(t *testing.T, w *brokenWorld) { applyManifest(t, w.north, "link/remote-access.yaml") },
		check: []finding{
			{
				`failure rights north: not permitted: (?:list|watch|list, watch) endpointslices\.discovery\.k8s\.io ` +
					`\(the cluster does not join\)`,
				"in that cluster: kubectl apply -f manifests/link/remote-access.yaml",
			},
			{
				"failure link-state north: it is unreachable: endpointslices: .* is forbidden: .*",
				"see the api and rights checks, .*",
			},
		},
	}, {
		name: "two links to one cluster",
		spoil: func(t *testing.T, w *brokenWorld) {
			s := kube.Link("east", w.access(t, w.east, "isthmus-remote-access", month))
			s.Name = "younger"
			must(t, w.west.Apply(t.Context(), s))
		},
		repair: deleteLink("younger"),
		check: []finding{
			{
				"failure link-secret younger: Secret cluster-credentials-east also names cluster east: " +
					"Isthmus uses that Secret, because it is older",
				"delete the Secret that you do not need, .*",
			},
		},
	}, {
		name: "a token that expires tomorrow",
		spoil: func(t *testing.T, w *brokenWorld) {
			must(t, w.west.Apply(
				t.Context(),
				kube.Link("east", w.access(t, w.east, "isthmus-remote-access", 20*time.Hour)),
			))
		},
		repair: verb("link", "east", "--context", "east", "--apply"), // requires that there is only one link
		check: []finding{
			{
				"warning link-expiry east: its token expires in (19|20) hours, at .*",
				"renew the link: isthmus link east --context CONTEXT --apply",
			},
		},
	}, {
		name: "a forgotten cordon",
		spoil: func(t *testing.T, w *brokenWorld) {
			s := kube.Link("south", w.access(t, w.south, "isthmus-remote-access", month))
			s.Annotations["isthmus.io/cordon"] = "true"
			must(t, w.west.Apply(t.Context(), s))
		},
		repair: verb("uncordon", "south", "--yes"),
		check: []finding{
			{
				"warning link-state south: it is ready and withdrawn: cordoned by annotation .* of Secret " +
					"linkerd/cluster-credentials-south",
				"if it is no longer wanted: isthmus uncordon south",
			},
		},
	}, {
		name: "a cordon with a typo",
		spoil: func(t *testing.T, w *brokenWorld) {
			s := kube.Link("north", w.access(t, w.north, "isthmus-remote-access", month))
			s.Annotations["isthmus.io/cordon"] = "ture"
			must(t, w.west.Apply(t.Context(), s))
		},
		repair: verb("uncordon", "north", "--yes"),
		check: []finding{
			{
				`failure link-secret cluster-credentials-north: annotation isthmus\.io/cordon: "ture" is none of ` +
					`false, last-resort, true; the annotation is ignored`,
				"correct the annotation, or remove it: kubectl edit secret -n linkerd cluster-credentials-north; .*",
			},
		},
	}, {
		name: "different trust anchors",
		spoil: func(t *testing.T, w *brokenWorld) {
			must(t, w.south.Apply(t.Context(), w.anchors(anchorPEM(t, 3*month))))
		},
		repair: func(t *testing.T, w *brokenWorld) { must(t, w.south.Apply(t.Context(), w.anchors(w.anchor))) },
		check: []finding{
			{
				"failure trust-anchors south: the cluster has no trust anchor in common .*",
				"use the same trust anchors in all clusters; to rotate them: .*",
			},
		},
	}, {
		name: "overlapping Pod networks",
		spoil: func(t *testing.T, w *brokenWorld) {
			must(t, w.east.Apply(
				t.Context(),
				w.node("east-2", "10.244.2.0/25"),
				kube.Service("shop", "web"),
				kube.Slice("shop", "web", "a", kube.Endpoint("10.244.2.7")),
			))
			must(
				t,
				w.west.Apply(
					t.Context(),
					kube.Service("shop", "web"),
					kube.Slice("shop", "web", "a", kube.Endpoint("10.244.2.7")),
					kube.Federated("shop", "web-federated", "web", "web@east"),
				),
			)
		},
		repair: func(t *testing.T, w *brokenWorld) {
			must(t, w.east.CoreV1().Nodes().Delete(t.Context(), "east-2", metav1.DeleteOptions{}))
			must(t, w.east.Apply(t.Context(), kube.Slice("shop", "web", "a", kube.Endpoint("10.245.0.7"))))
		},
		check: []finding{
			{
				`warning pod-networks east: Pod CIDRs overlap: 10\.244\.2\.0/25 overlaps 10\.244\.2\.0/23 of local`,
				"federated Services need flat networks, .*",
			},
		},
		explain: &verdict{
			"web-federated",
			"10.244.2.7:8080",
			"taken",
			[]string{`taken \(1\): if different Pods have this address, resolve the overlap of the clusters' networks`},
		},
	}, {
		name: "a cluster's name with a typo",
		spoil: both(
			member("cart", "10.245.0.30"),
			write(inWest, kube.Federated("shop", "cart-federated", "", "cart@eest")),
		),
		repair: write(inWest, kube.Federated("shop", "cart-federated", "", "cart@east")),
		check: []finding{
			{
				"failure members shop/cart-federated: shop/cart of cluster eest does not serve: cluster is unlinked",
				"correct the cluster's name in the annotations of Service shop/cart-federated, .*",
			},
		},
		explain: &verdict{
			args:  "cart-federated",
			words: []string{`eest +shop/cart +unlinked`, `eest is unlinked: no link Secret names the cluster`},
		},
	}, {
		name: "a Service with another name in the member's cluster",
		spoil: both(
			member("payment", "10.245.0.31"),
			write(inWest, kube.Federated("shop", "pay-federated", "", "pay@east")),
		),
		repair: write(inWest, kube.Federated("shop", "pay-federated", "", "payment@east")),
		check: []finding{
			{
				"failure members shop/pay-federated: shop/pay of cluster east does not serve: " +
					"no such Service in the cluster",
				"create the Service in the member's cluster, or remove .*",
			},
		},
		explain: &verdict{args: "pay-federated", words: []string{`east +shop/pay .* no such Service in the cluster`}},
	}, {
		name: "a port that a member does not declare",
		spoil: both(member("search", "10.245.0.32"), write(inEast, onPort(kube.Service("shop", "search"), 8080)),
			write(inWest, kube.Federated("shop", "search-federated", "", "search@east"))),
		// Apply would add a port with another number instead of replacing the old port.
		repair: func(t *testing.T, w *brokenWorld) {
			must(t, w.east.CoreV1().Services("shop").Delete(t.Context(), "search", metav1.DeleteOptions{}))
			must(t, w.east.Apply(t.Context(), kube.Service("shop", "search")))
			must(t, w.east.Apply(t.Context(), kube.Slice("shop", "search", "a", kube.Endpoint("10.245.0.32"))))
		},
		check: []finding{
			{
				`warning ports shop/search-federated: shop/search in cluster east does not declare ` +
					`port 80 \(http is 8080 there\): .*`,
				"use the same port numbers in both Services; .*",
			},
		},
	}, {
		name: "a preference with a typo",
		spoil: both(member("near", "10.245.0.33"), write(
			inWest,
			annotated(kube.Federated("shop", "near-federated", "", "near@east"), "isthmus.io/prefer", "locl, any"),
		)),
		repair: write(
			inWest,
			annotated(kube.Federated("shop", "near-federated", "", "near@east"), "isthmus.io/prefer", "local, any"),
		),
		check: []finding{
			{
				`warning definitions shop/near-federated: annotation isthmus\.io/prefer: no cluster locl is linked`,
				"correct the name in the annotation, .*",
			},
		},
	},

	// Only isthmus explain can detect these faults.
	{
		name: "a target port that no container has",
		spoil: both(write(inEast, selecting("api", "web"), selectedPod("api", "10.245.0.20", corev1.ConditionTrue)),
			write(inWest, kube.Federated("shop", "api-federated", "", "api@east"))),
		repair: write(inEast, selecting("api", "http")),
		explain: &verdict{
			"api-federated",
			"10.245.0.20",
			"no-such-port",
			[]string{
				`no-such-port \(1\): check that a container in the Pod declares a TCP port whose name`,
			},
		},
	}, {
		name: "unready Pods",
		spoil: both(
			write(inEast, selecting("orders", "http"), selectedPod("orders", "10.245.0.21", corev1.ConditionFalse)),
			write(
				inWest,
				kube.Service("shop", "orders"),
				kube.Slice("shop", "orders", "a", kube.Endpoint("10.244.0.21")),
				kube.Federated("shop", "orders-federated", "orders", "orders@east"),
			),
		),
		repair: write(inEast, selectedPod("orders", "10.245.0.21", corev1.ConditionTrue)),
		explain: &verdict{
			"orders-federated --address 10.245.0.21",
			"10.245.0.21:8080",
			"not-ready",
			[]string{`not-ready +Pod shop/orders-1`, `run kubectl describe pod in the Pod's cluster`},
		},
	},
}
