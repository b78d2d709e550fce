package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
	"isthmus/internal/adminapi"
	"isthmus/internal/apisim"
)

// world contains what all faults share: a replica with the local cluster west, and the cluster
// north, which is linked under the name calm and stays healthy.
type world struct {
	west, north *site
	more        []*site             // clusters that may fail
	own         *harness.FaultProxy // proxy between the replica and west
	gateway     *harness.Replica
	stages      atomic.Int32
	clusters    reading[adminapi.Clusters]
	metrics     reading[[]harness.Sample]
}

const calm = "calm"

// newWorld starts a replica with the given flags, its clusters and additional clusters. Until the
// test ends, it checks that the replica stays ready.
func newWorld(t *testing.T, flags []string, more ...string) *world {
	t.Helper()
	sites := startSites(t, append([]string{"west", "north"}, more...)...)
	w := &world{west: sites[0], north: sites[1], more: sites[2:]}
	must(t, w.west.apply(t.Context(), kube.LinkNamespace))
	var err error
	w.own, err = harness.StartFaultProxy(strings.TrimPrefix(w.west.cluster().REST().Host, "https://"))
	must(t, err)
	t.Cleanup(func() { must(t, w.own.Close()) })
	kubeconfig, err := credentials{server: "https://" + w.own.Addr(), site: w.west}.kubeconfig()
	must(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(path, kubeconfig, 0o600))
	flags = append([]string{"-max-connection-age=0"}, flags...) // the long form keeps streams open for longer
	g, err := harness.StartReplica(t.Context(), harness.ReplicaConfig{Kubeconfig: path, Args: flags})
	must(t, err)
	w.gateway = g
	t.Cleanup(func() { must(t, g.Stop()) })
	must(t, w.link(t.Context(), calm, credentials{server: w.north.cluster().REST().Host, site: w.north}))
	w.awaitState(t, calm, "ready", recovery)
	w.watch(t)
	return w
}

// watch reports an error whenever the replica is not ready or does not watch the healthy cluster.
func (w *world) watch(t *testing.T) {
	life, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var watching sync.WaitGroup
	watching.Go(func() {
		for harness.Pause(life, 200*time.Millisecond) == nil {
			if err := w.well(life); err != nil && life.Err() == nil {
				t.Errorf("at %s: %v", time.Now().Format("15:04:05.000"), err)
			}
		}
	})
	t.Cleanup(func() {
		stop()
		watching.Wait()
	})
}

func (w *world) well(ctx context.Context) error {
	if _, err := w.page(ctx, "/ready"); err != nil {
		return err
	}
	c, err := w.cluster(ctx, calm)
	if err == nil && c.State != "ready" {
		err = fmt.Errorf("cluster %s is %+v", calm, c)
	}
	return err
}

// reading shares a value that all faults read repeatedly. The admin server serves few requests at
// once and rejects the others with 503 after a while.
type reading[T any] struct {
	mu    sync.Mutex
	begun time.Time // start of the last read
	value T
	err   error
}

// read returns a value that was read after the call of this method.
func (r *reading[T]) read(read func() (T, error)) (T, error) {
	asked := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil || !r.begun.After(asked) {
		r.begun = time.Now()
		r.value, r.err = read()
	}
	return r.value, r.err
}

func (w *world) page(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return harness.GetPage(ctx, w.gateway.MetricsAddr(), path)
}

func (w *world) cluster(ctx context.Context, name string) (adminapi.Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	page, err := w.clusters.read(
		func() (adminapi.Clusters, error) { return harness.ReadClusters(ctx, w.gateway.MetricsAddr()) },
	)
	if all := harness.ClustersNamed(page, name); len(all) > 0 {
		return all[0], err
	}
	return adminapi.Cluster{ClusterStatus: adminapi.ClusterStatus{State: "absent"}}, err
}

func (w *world) metric(ctx context.Context, expr string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	samples, err := w.metrics.read(
		func() ([]harness.Sample, error) { return harness.ReadMetrics(ctx, w.gateway.MetricsAddr()) },
	)
	sum, _ := harness.SumSamples(samples, regexp.MustCompile("^(?:"+expr+")$"))
	return sum, err
}

// awaitState waits until both /debug/clusters and the metrics show the given state of a cluster.
func (w *world) awaitState(t *testing.T, name, state string, limit time.Duration) {
	t.Helper()
	began := time.Now()
	await(t, limit, func() error {
		c, err := w.cluster(t.Context(), name)
		if err != nil {
			return err
		}
		if string(c.State) != state {
			return fmt.Errorf("cluster %s is %+v, want %s", name, c, state)
		}
		shown, err := w.metric(t.Context(), `isthmus_cluster_state\{cluster="`+name+`",state="`+state+`"\}`)
		if err == nil && shown != 1 && state != "absent" {
			err = fmt.Errorf("isthmus_cluster_state of %s does not show %s", name, state)
		}
		return err
	})
	t.Logf("%s is %s after %v", name, state, time.Since(began).Round(10*time.Millisecond))
}

func await(t *testing.T, limit time.Duration, check func() error) {
	t.Helper()
	must(t, within(t.Context(), limit, check))
}

func within(ctx context.Context, limit time.Duration, check func() error) error {
	return harness.Poll(ctx, limit, 50*time.Millisecond, check)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) subscribe(t *testing.T, kind proxy.Kind, service, namespace string) *proxy.Stream {
	t.Helper()
	conn, err := proxy.Dial(w.gateway.Addr())
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	s := proxy.NewStream(proxy.Config{
		Conn:      conn,
		Kind:      kind,
		Authority: service + "." + namespace + ".svc.cluster.local:80",
		MayBeLate: !*long,
	})
	t.Cleanup(s.Close)
	must(t, s.Open(t.Context()))
	return s
}

// subscribeToNew is like subscribe, but for a Service that has just been created. Like a proxy, it
// retries while Isthmus does not know the Service. It waits until the stream has begun.
func (w *world) subscribeToNew(t *testing.T, kind proxy.Kind, service, namespace string) *proxy.Stream {
	t.Helper()
	s := w.subscribe(t, kind, service, namespace)
	await(t, patience, func() error {
		now := s.Snapshot()
		if now.Messages > 0 {
			return nil
		}
		if status.Code(now.Err) == codes.NotFound {
			must(t, s.Open(t.Context()))
		}
		return fmt.Errorf("a stream of %s received no message: %v", service, now.Err)
	})
	return s
}

const accountName = "gateway"

// credentials contains the contents of a link.
type credentials struct {
	server string // https://HOST:PORT
	site   *site  // the cluster whose authority signed the server's certificate
	token  string // empty for an administrator's certificate
}

func (c credentials) kubeconfig() ([]byte, error) {
	client, user := c.site.client(), clientcmdapi.AuthInfo{Token: c.token}
	if c.token == "" {
		user = client.Admin()
	}
	return client.Kubeconfig(c.server, user)
}

func (w *world) link(ctx context.Context, name string, c credentials) error {
	kubeconfig, err := c.kubeconfig()
	if err != nil {
		return err
	}
	return w.writeLink(ctx, kube.Link(name, kubeconfig))
}

func (w *world) writeLink(ctx context.Context, o *corev1.Secret) error {
	_, err := kube.Put(ctx, w.west.client().CoreV1().Secrets(kube.LinkNamespace), o)
	return err
}

func (w *world) unlink(ctx context.Context, name string) error {
	return w.west.client().CoreV1().Secrets(kube.LinkNamespace).Delete(ctx, kube.LinkName(name), metav1.DeleteOptions{})
}

// showsEndless returns an error unless Isthmus shows the problem of a cluster with endless
// responses.
func (w *world) showsEndless(ctx context.Context, of *endlessCluster) error {
	switch of.how {
	case apisim.EndlessPages, apisim.EndlessLists:
		if w.overBudget(ctx, of.name) == nil {
			return nil // on a busy machine, a list may time out before it exceeds the cap
		}
	}
	c, err := w.cluster(ctx, of.name)
	if err != nil {
		return err
	}
	if of.how == apisim.EndlessObject && len(c.ObjectWarnings) > 0 {
		return nil // on a busy machine, watches may last too long to count as failures
	}
	for _, r := range c.Resources {
		if r.Err+r.Trouble != "" {
			return nil
		}
	}
	return fmt.Errorf("cluster %s is %+v: no problem is shown", of.name, c)
}

// overBudget returns an error unless Isthmus shows that a cluster is over budget, and that its
// cache is within the memory cap.
func (w *world) overBudget(ctx context.Context, name string) error {
	c, err := w.cluster(ctx, name)
	if err == nil && !strings.Contains(c.Reason, "over budget: ") {
		err = fmt.Errorf("cluster %s is %+v, want over budget", name, c)
	}
	used, err2 := w.metric(ctx, `isthmus_cluster_memory_bytes\{cluster="`+name+`"\}`)
	limit, err3 := w.metric(ctx, `isthmus_cluster_memory_limit_bytes\{cluster="`+name+`"\}`)
	if err := errors.Join(err, err2, err3); err != nil {
		return err
	}
	if limit == 0 || used > limit {
		return fmt.Errorf("cluster %s is charged %v bytes of %v", name, used, limit)
	}
	return nil
}

// listen runs a replica until it has tried all links. It returns everything that the replica has
// output, by the place of the output.
func (w *world) listen(t *testing.T, format string, links map[string]*corev1.Secret) map[string]string {
	var log bytes.Buffer
	var mu sync.Mutex
	traces := collectTraces(t)
	must(t, w.writeLink(t.Context(), links["good"])) // undo the rotation of an earlier run
	g, err := harness.StartReplica(
		t.Context(),
		harness.ReplicaConfig{Kubeconfig: w.west.cluster().Kubeconfig(), Output: locked{&mu, &log},
			Args: []string{"-log-level=trace", "-log-format=" + format, "-trace-collector=" + traces.addr}},
	)
	must(t, err)
	defer func() { must(t, g.Stop()) }()
	w.gateway = g
	w.awaitState(t, "good", "ready", recovery)
	shown := map[string]string{}
	for name, o := range links {
		await(t, notice, func() error {
			c, err := w.cluster(t.Context(), name)
			if err == nil && (c.State == "absent" || c.State == "pending") {
				err = fmt.Errorf("Secret %s is %+v", o.Name, c)
			}
			return err
		})
		shown["errors"] += w.refusal(t, name)
	}
	served := w.subscribe(t, proxy.Get, "good", "marker") // otherwise /debug/streams would be empty
	await(t, recovery, func() error { return w.streams(t.Context(), 1) })
	w.readPages(t, "", shown)
	for name := range links {
		shown["output of isthmus explain"] += w.verb(t, "explain", "marker/"+name)
	}
	w.rotate(t, links["good"], links["token-echoed"], "new credentials do not work")
	w.readPages(t, " while new credentials do not work", shown)
	w.rotate(t, links["good"], links["no-yaml"], "the current version of the Secret cannot be used")
	w.readPages(t, " while the Secret can't be used", shown)
	served.Close()
	await(t, recovery, func() error { return w.streams(t.Context(), 0) })
	must(t, g.Stop())
	shown["traces"] = traces.text()
	mu.Lock()
	defer mu.Unlock()
	shown["log"] = log.String()
	return shown
}

func (w *world) readPages(t *testing.T, when string, shown map[string]string) {
	t.Helper()
	for _, path := range []string{
		"/metrics",
		"/debug/clusters",
		"/debug/services",
		"/debug/streams",
		"/debug/explain?authority=good.marker.svc.cluster.local",
		"/ready",
	} {
		text, err := w.page(t.Context(), path)
		must(t, err)
		shown[path+when] = text
	}
	for _, verb := range []string{"clusters", "services", "explain marker/good", "explain marker/good -o json"} {
		shown["output of isthmus "+verb+when] = w.verb(t, strings.Fields(verb)...)
	}
}

func (w *world) verb(t *testing.T, args ...string) string {
	t.Helper()
	isthmus, err := harness.Isthmus.Path(t.Context())
	must(t, err)
	out, err := exec.CommandContext(t.Context(), isthmus, append(args, "--admin", w.gateway.MetricsAddr())...).
		CombinedOutput()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && failed.ExitCode() == 1 { // a service without endpoints
		err = nil
	}
	must(t, err)
	if len(out) < 100 {
		t.Errorf("isthmus %v prints %q", args, out)
	}
	return string(out)
}

// rotate replaces the credentials of a link by credentials that do not work, and waits until
// Isthmus shows the reason.
func (w *world) rotate(t *testing.T, serves, fails *corev1.Secret, reason string) {
	t.Helper()
	o := serves.DeepCopy()
	o.Data = fails.Data
	must(t, w.writeLink(t.Context(), o))
	await(t, notice, func() error {
		c, err := w.cluster(t.Context(), "good")
		if err == nil && (c.State != "ready" || !strings.Contains(fmt.Sprint(c.Warnings), reason)) {
			err = fmt.Errorf("the cluster is %+v", c)
		}
		return err
	})
}

// refusal returns the error for a proxy that requests a mirror of the cluster.
func (w *world) refusal(t *testing.T, name string) string {
	s := w.subscribe(t, proxy.Get, name, "marker")
	defer s.Close()
	must(t, s.Until(t.Context(), recovery, func() error {
		if now := s.Status(); now.Phase == proxy.Open && now.Messages == 0 {
			return fmt.Errorf("a stream of %s receives no message and does not end", name)
		}
		return nil
	}))
	return fmt.Sprintf("%s: %v\n", name, s.Status().Err)
}

// markedLinks returns the link Secrets by cluster name.
func (w *world) markedLinks(t *testing.T, token string) map[string]*corev1.Secret {
	admin := w.north.cluster().REST()
	type fields = map[string]any
	list := func(name, key string, o any) []any { return []any{fields{"name": name, key: o}} }
	links := map[string]*corev1.Secret{}
	write := func(name string, kubeconfig []byte) {
		links[name] = kube.Link(name, kubeconfig)
		links[name].Data["more"] = []byte(marker)
	}
	// change adds a kubeconfig that is valid except for one change.
	change := func(name string, how func(config, cluster, user fields)) {
		cluster := fields{"server": admin.Host, "certificate-authority-data": admin.CAData}
		user := fields{"token": marker}
		config := fields{"apiVersion": "v1", "kind": "Config", "current-context": "c",
			"contexts": list("c", "context", fields{"cluster": "c", "user": "u"}),
			"clusters": list("c", "cluster", cluster), "users": list("u", "user", user)}
		how(config, cluster, user)
		text, err := json.Marshal(config)
		must(t, err)
		write(name, text)
	}
	in := func(name, key string, value any) {
		change(name, func(_, cluster, user fields) {
			if _, is := cluster[key]; is || strings.HasPrefix(key, "proxy-") {
				cluster[key] = value
			} else {
				user[key] = value
			}
		})
	}
	change("good", func(_, _, user fields) { user["token"] = token })
	change("certificate", func(_, _, user fields) {
		delete(user, "token")
		user["client-certificate-data"], user["client-key-data"] = admin.CertData, admin.KeyData
	})
	in("token-refused", "token", marker)
	in("token-of-words", "token", "a "+marker)
	in("token-of-lines", "token", "a\n"+marker)
	in("token-echoed", "server", echo(t))
	in("server-with-user", "server", "https://"+marker+":"+marker+"@127.0.0.1:1")
	in("server-with-query", "server", admin.Host+"?token="+marker)
	in("server-no-url", "server", "://"+marker)
	in("server-odd-port", "server", "https://127.0.0.1:"+marker)
	in("ca-no-certificate", "certificate-authority-data", []byte(marker))
	in("ca-no-base64", "certificate-authority-data", "!"+marker)
	in(
		"ca-broken",
		"certificate-authority-data",
		[]byte("-----BEGIN CERTIFICATE-----\n"+marker+"\n-----END CERTIFICATE-----\n"),
	)
	in(
		"ca-with-header",
		"certificate-authority-data",
		[]byte("-----BEGIN CERTIFICATE-----\n"+marker+": "+marker+"\n\nAAAA\n-----END CERTIFICATE-----\n"),
	)
	in("proxy", "proxy-url", "http://"+marker+":"+marker+"@127.0.0.1:1")
	in("key-alone", "client-key-data", []byte(marker))
	change("key-and-certificate", func(_, _, user fields) {
		user["client-key-data"], user["client-certificate-data"] = []byte(marker), []byte(marker)
	})
	in("key-file", "client-key", "/"+marker)
	in("token-file", "tokenFile", "/"+marker)
	in("password", "password", marker)
	in("impersonation", "as", marker)
	in("auth-provider", "auth-provider", fields{"name": marker, "config": fields{marker: marker}})
	in(
		"exec",
		"exec",
		fields{"apiVersion": "client.authentication.k8s.io/v1", "command": marker, "args": []string{marker},
			"env": []fields{{"name": marker, "value": marker}}, "interactiveMode": "Never"},
	)
	in("exec-odd", "exec", marker)
	in("token-odd", "token", fields{marker: marker})
	change("user-missing", func(config, _, _ fields) {
		config["contexts"] = list("c", "context", fields{"cluster": "c", "user": marker})
	})
	change("cluster-missing", func(config, _, _ fields) {
		config["contexts"] = list("c", "context", fields{"cluster": marker, "user": "u"})
	})
	change("context-missing", func(config, _, _ fields) { config["current-context"] = marker })
	change("field-unknown", func(config, _, _ fields) { config[marker] = marker })
	change("kind-unknown", func(config, _, _ fields) { config["kind"], config["apiVersion"] = marker, marker })
	change("preferences-odd", func(config, _, _ fields) { config["preferences"] = marker })
	change("extension", func(config, _, _ fields) { config["extensions"] = list(marker, "extension", marker) })
	write("no-yaml", []byte("{["+marker))
	write("a-word", []byte(marker))
	write("tabs", []byte("a:\n\t"+marker+": 1\n b"))
	write("binary", []byte("\x00\xff"+marker))
	return links
}

func (w *world) streams(ctx context.Context, want int) error {
	open, err := w.metric(ctx, "isthmus_streams")
	if err == nil && int(open) != want {
		err = fmt.Errorf("%v streams are open, want %d", open, want)
	}
	return err
}

// newStage prepares a stage whose faulty cluster is linked and uses the given API server.
func (w *world) newStage(t *testing.T, name string, at *site) *stage {
	t.Helper()
	p, err := harness.StartFaultProxy(strings.TrimPrefix(at.cluster().REST().Host, "https://"))
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	s := &stage{world: w, t: t, name: name, cluster: name, proxy: p, server: "https://" + p.Addr()}
	s.populate(at)
	s.faulty = s.far
	s.churn = s.startChurn()
	return s
}

// newOwnStage prepares a stage whose faulty cluster is the local cluster.
func (w *world) newOwnStage(t *testing.T, name string) *stage {
	t.Helper()
	s := &stage{world: w, t: t, name: name, cluster: "local", proxy: w.own, server: w.north.cluster().REST().Host}
	s.populate(w.north)
	s.faulty = s.near
	s.churn = s.startChurn()
	return s
}
