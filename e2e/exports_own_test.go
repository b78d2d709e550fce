package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/internal/adminapi"
)

// own is a cluster with replicas whose controller namespace is the test's own namespace. They write
// for exports in that namespace, so that replicas in other namespaces ignore these exports.
type own struct {
	t         *testing.T
	west      *kube.Client
	config    *rest.Config
	namespace string
}

// gateway starts a replica. If server is empty, the replica uses the API server directly.
func (o *own) gateway(name, server string) *harness.Replica {
	o.t.Helper()
	if server == "" {
		server = o.west.Server()
	}
	user := o.west.Admin()
	if strings.HasPrefix(server, "http:") {
		user = clientcmdapi.AuthInfo{} // the proxy adds credentials
	}
	text, err := o.west.Kubeconfig(server, user)
	must(o.t, err)
	return startGateway(
		o.t,
		harness.ReplicaConfig{Kubeconfig: writeKubeconfig(o.t, text), Hostname: name, Args: []string{
			"-controller-namespace=" + o.namespace, "-exports=on", "-unlinked-after=10s",
			"-local-federated-selector=for=" + o.namespace,
			"-shutdown-delay=0s", "-drain=0s", "-log-level=info",
		}},
	)
}

// intercept starts a proxy in front of the API server and returns its address.
func (o *own) intercept(answer func(w http.ResponseWriter, r *http.Request, forward http.HandlerFunc)) string {
	o.t.Helper()
	target, err := url.Parse(o.config.Host)
	must(o.t, err)
	transport, err := rest.TransportFor(o.config)
	must(o.t, err)
	return harness.Intercept(o.t, target, transport, answer).URL
}

// export creates an exported Service or changes its label.
func (o *own) export(name, team string) {
	o.t.Helper()
	s := kube.Service(o.namespace, name)
	s.Labels = map[string]string{"for": o.namespace, "team": team}
	must(o.t, o.west.Apply(o.t.Context(), s))
}

// users replaces a Service by a user's Service. It is safe for concurrent use.
func (o *own) users(name string) {
	services := o.west.CoreV1().Services(o.namespace)
	if err := services.Delete(o.t.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		o.t.Error(err)
	}
	s := kube.Service(o.namespace, name)
	s.Spec.Selector = map[string]string{"app": "users"}
	if _, err := services.Create(o.t.Context(), s, metav1.CreateOptions{}); err != nil {
		o.t.Error(err)
	}
}

func (o *own) get(name string) *corev1.Service {
	o.t.Helper()
	s, err := o.west.CoreV1().Services(o.namespace).Get(o.t.Context(), name, metav1.GetOptions{})
	must(o.t, err)
	return s
}

// await waits until the Service written for an export has the export's label.
func (o *own) await(name, team string) {
	o.t.Helper()
	await(o.t, name+" is written", func() error {
		s, err := o.west.CoreV1().Services(o.namespace).Get(o.t.Context(), name+"-federated", metav1.GetOptions{})
		if err == nil && s.Labels["team"] != team {
			err = fmt.Errorf("the labels are %v", s.Labels)
		}
		return err
	})
}

func (o *own) written() []corev1.Service {
	o.t.Helper()
	list, err := o.west.CoreV1().
		Services("").
		List(o.t.Context(), metav1.ListOptions{LabelSelector: "isthmus.io/written-by=" + o.namespace})
	must(o.t, err)
	return list.Items
}

func (o *own) hasWritten(right func(n int) bool) error {
	if n := len(o.written()); !right(n) {
		return fmt.Errorf("%d Services are written", n)
	}
	return nil
}

func (o *own) writes(g *harness.Replica) float64 {
	o.t.Helper()
	samples, err := harness.ReadMetrics(o.t.Context(), g.MetricsAddr())
	must(o.t, err)
	n, _ := harness.SumSamples(samples, regexp.MustCompile(`^isthmus_service_writes_total\{`))
	return n
}

func (o *own) holder() string {
	o.t.Helper()
	l, err := o.west.CoordinationV1().
		Leases(o.namespace).
		Get(o.t.Context(), "isthmus-exports-write", metav1.GetOptions{})
	must(o.t, err)
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// TestExportsOfOwn tests changes by others between the reads and writes of Isthmus, the number of
// writes, and the handover between replicas. It covers the statements 41, 43, 59, 60, 62, 64 and 72
// about services of other clusters, mostly with Services of the local cluster.
func TestExportsOfOwn(t *testing.T) {
	t.Parallel()
	server := startClusters(t, []string{"namespace", "serviceaccount"}, "west")[0]
	west := client(t, server)
	must(t, west.ServeMCS(t.Context(), kube.MCSVersions...)) // awaitReady requires all resources
	var all sync.WaitGroup                                   // they mostly wait, so together they count as one test
	for name, test := range map[string]func(*own){
		"between": (*own).testBetween, "turns": (*own).testTurns, "rolling": (*own).testRolling,
		"killed": (*own).testKilled, "frozen": (*own).testFrozen, "cut-off": (*own).testCutOff,
	} {
		all.Go(func() {
			t.Run(name, func(t *testing.T) {
				must(t, west.Apply(t.Context(), kube.Namespace(name)))
				test(&own{t, west, server.REST(), name})
			})
		})
	}
	all.Wait()
}

type request struct {
	began, ended time.Time
	code         int
}

// requests records write requests by method and name.
type requests struct {
	mu  sync.Mutex
	all map[string][]request
	// The before function is called before the first request for a key. If it returns true, it has
	// responded to the request.
	before map[string]func(w http.ResponseWriter, r *http.Request, forward http.HandlerFunc) bool
}

var federatedName = regexp.MustCompile(`[a-z0-9-]+-federated`)

func (q *requests) answer(w http.ResponseWriter, r *http.Request, forward http.HandlerFunc) {
	if r.Method == http.MethodGet || !strings.Contains(r.URL.Path, "/services") {
		forward(w, r)
		return
	}
	name := path.Base(r.URL.Path)
	if r.Method == http.MethodPost {
		body, _ := io.ReadAll(r.Body) // the API server reports a truncated body
		r.Body = io.NopCloser(bytes.NewReader(body))
		name = federatedName.FindString(string(body))
	}
	key := r.Method + " " + name
	q.mu.Lock()
	before := q.before[key]
	delete(q.before, key)
	q.mu.Unlock()
	answer := &statusWriter{ResponseWriter: w}
	one := request{began: time.Now()}
	if before == nil || !before(answer, r, forward) {
		forward(
			answer,
			r.WithContext(context.WithoutCancel(r.Context())),
		) // even if the replica does not wait for the response
	}
	one.ended, one.code = time.Now(), answer.code
	q.mu.Lock()
	q.all[key] = append(q.all[key], one)
	q.mu.Unlock()
}

type statusWriter struct {
	http.ResponseWriter
	code int
}

func (w *statusWriter) WriteHeader(code int) { w.code = code; w.ResponseWriter.WriteHeader(code) }

func (q *requests) of(key string) []request {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.all[key])
}

func (q *requests) codes(key string) (codes []int) {
	for _, one := range q.of(key) {
		codes = append(codes, one.code)
	}
	return codes
}

// testBetween tests users who change a Service just before Isthmus does, a write whose response is
// wrong, and an export that changes continuously.
func (o *own) testBetween() {
	q := &requests{all: map[string][]request{}}
	q.before = map[string]func(http.ResponseWriter, *http.Request, http.HandlerFunc) bool{
		"POST taken-federated": func(http.ResponseWriter, *http.Request, http.HandlerFunc) bool {
			o.users("taken-federated")
			return false
		},
		"DELETE gone-federated": func(http.ResponseWriter, *http.Request, http.HandlerFunc) bool {
			o.users("gone-federated")
			return false
		},
		"POST late-federated": func(w http.ResponseWriter, r *http.Request, forward http.HandlerFunc) bool {
			forward(httptest.NewRecorder(), r)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusGatewayTimeout)
			_, err := io.WriteString(
				w,
				`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Timeout","code":504,"message":"it `+
					`took too long"}`,
			)
			return err == nil
		},
	}
	g := o.gateway("a", o.intercept(q.answer))
	for _, name := range []string{"taken", "gone", "late", "flaps"} {
		o.export(name, "a")
	}
	for _, name := range []string{"gone", "late", "flaps"} {
		o.await(name, "a")
	}
	late := o.get("late-federated")
	must(o.t, o.west.CoreV1().Services(o.namespace).Delete(o.t.Context(), "gone", metav1.DeleteOptions{}))
	await(o.t, "gone-federated is to be deleted", func() error {
		if n := len(q.of("DELETE gone-federated")); n != 1 {
			return fmt.Errorf("%d requests", n)
		}
		return nil
	})
	n := 0
	for began := time.Now(); time.Since(began) < 3*time.Second; n++ {
		o.export("flaps", fmt.Sprint("v", n))
		time.Sleep(10 * time.Millisecond)
	}
	o.await("flaps", fmt.Sprint("v", n-1))

	if got := q.codes("POST taken-federated"); !slices.Equal(got, []int{http.StatusConflict}) {
		o.t.Errorf("creating a Service that a user has just created returned %v", got)
	}
	if got := q.codes("DELETE gone-federated"); !slices.Equal(got, []int{http.StatusConflict}) {
		o.t.Errorf("deleting a Service that a user has just replaced returned %v", got)
	}
	for _, name := range []string{"taken-federated", "gone-federated"} {
		if s := o.get(name); s.Spec.Selector["app"] != "users" || len(s.ManagedFields) != 1 {
			o.t.Errorf("the user's Service is %+v", s)
		}
	}
	if text, err := harness.GetPage(
		o.t.Context(),
		g.MetricsAddr(),
		"/debug/exports?service="+o.namespace+"/taken",
	); err != nil ||
		!strings.Contains(text, `"taken"`) {
		o.t.Errorf("taken-federated is not shown as taken: %v %s", err, text)
	}
	if got, now := q.codes("POST late-federated"), o.get("late-federated"); !slices.Equal(
		got,
		[]int{http.StatusGatewayTimeout},
	) ||
		now.ResourceVersion != late.ResourceVersion {
		o.t.Errorf("a Service that was created despite an error response is created again: %v; %+v", got, now)
	}
	o.export("late", "b") // Isthmus must know that it wrote this Service
	o.await("late", "b")
	samples, err := harness.ReadMetrics(o.t.Context(), g.MetricsAddr())
	must(o.t, err)
	if n, _ := harness.SumSamples(
		samples,
		regexp.MustCompile(`^isthmus_service_writes_total\{.*result="ok",verb="create"`),
	); n != 2 {
		o.t.Errorf("%v creations are counted, want only those of gone and flaps", n)
	}
	puts := q.of("PUT flaps-federated")
	for i, put := range puts[1:] {
		if pause := put.began.Sub(puts[i].ended); pause < time.Second {
			o.t.Errorf("the next write began %v after a write", pause)
		}
	}
	if len(puts) < 2 {
		o.t.Errorf("%d writes of the continuously changing Service", len(puts))
	}
}

// testTurns checks that many exports in five links do not delay an export in another link.
func (o *own) testTurns() {
	const links, many = 5, 300
	create := func(namespace, name string) {
		s := kube.Service(namespace, name)
		s.Labels = map[string]string{"mirror.linkerd.io/exported": "remote-discovery"}
		_, err := o.west.CoreV1().Services(namespace).Create(o.t.Context(), s, metav1.CreateOptions{})
		must(o.t, err)
	}
	kubeconfig, err := o.west.Kubeconfig(o.west.Server(), o.west.Admin())
	must(o.t, err)
	for i := range links + 1 {
		name := fmt.Sprint("turns-", i)
		must(o.t, o.west.Apply(o.t.Context(), kube.Namespace(name)))
		for n := range many / links {
			if i < links {
				create(name, fmt.Sprint("web-", n))
			}
		}
		secret := kube.Link(name, kubeconfig)
		secret.Namespace = o.namespace
		secret.Annotations["isthmus.io/export-namespaces"] = name
		must(o.t, o.west.Apply(o.t.Context(), secret))
	}
	awaitReady(o.t, o.gateway("a", ""), "turns-5")
	await(o.t, "writing has begun", func() error { return o.hasWritten(func(n int) bool { return n > 0 }) })
	create("turns-5", "web")
	await(o.t, "the export of another link is written", func() error {
		_, err := o.west.CoreV1().Services("turns-5").Get(o.t.Context(), "web-turns-5", metav1.GetOptions{})
		return err
	})
	must(o.t, o.hasWritten(func(n int) bool { return n < many }))
	for _, part := range []int{many / 3, many * 2 / 3, many + 1} { // takes minutes on a busy machine
		await(
			o.t,
			fmt.Sprint(part, " are written"),
			func() error { return o.hasWritten(func(n int) bool { return n >= part }) },
		)
	}
}

// testRolling restarts three replicas one after the other while 200 exports change. Each change
// must be written once, and the leader must release the Lease when it stops.
func (o *own) testRolling() {
	const exports = 200
	q := &requests{all: map[string][]request{}}
	server := o.intercept(q.answer)
	replicas := map[string]*harness.Replica{}
	for _, name := range []string{"a", "b", "c"} {
		replicas[name] = o.gateway(name, server)
	}
	for i := range exports {
		o.export(fmt.Sprint("web-", i), "a")
	}
	await(o.t, "all are written", func() error { return o.hasWritten(func(n int) bool { return n == exports }) })
	restarted := make(chan error, 1)
	go func() {
		var errs []error
		for _, g := range replicas {
			errs = append(errs, g.Restart(o.t.Context()))
		}
		restarted <- errors.Join(errs...)
	}()
	for i := range exports {
		o.export(fmt.Sprint("web-", i), "b")
		time.Sleep(20 * time.Millisecond)
	}
	must(o.t, <-restarted)
	for i := range exports {
		o.await(fmt.Sprint("web-", i), "b")
	}
	for i := range exports {
		key := fmt.Sprintf("PUT web-%d-federated", i)
		await(o.t, key+" has succeeded once", func() error { // the last responses may still be pending
			if codes := q.codes(key); len(
				slices.DeleteFunc(slices.Clone(codes), func(code int) bool { return code != http.StatusOK }),
			) != 1 {
				return fmt.Errorf("the responses are %v", codes)
			}
			return nil
		})
	}

	leader := o.holder()
	must(o.t, replicas[leader].Stop())
	if o.holder() == leader {
		o.t.Error("the replica ended without releasing the Lease")
	}
	began := time.Now()
	o.export("web-0", "c")
	o.await("web-0", "c")
	if took := time.Since(began); took > 15*time.Second { // a Lease that was not released would expire after 30 s
		o.t.Errorf("the next replica wrote after %v", took)
	}
}

func (o *own) testKilled() {
	a := o.gateway("a", "")
	o.takeOver(func() {
		must(o.t, a.Signal(syscall.SIGKILL))
		must(o.t, a.Stop())
	})
}

func (o *own) testFrozen() {
	a := o.gateway("a", "")
	b := o.takeOver(func() { must(o.t, a.Signal(syscall.SIGSTOP)) })
	must(o.t, a.Signal(syscall.SIGCONT))
	o.staysAway(a, b)
}

func (o *own) testCutOff() {
	proxy, err := harness.StartFaultProxy(strings.TrimPrefix(o.west.Server(), "https://"))
	must(o.t, err)
	atEnd(o.t, proxy.Close)
	a := o.gateway("a", "https://"+proxy.Addr())
	b := o.takeOver(func() { must(o.t, proxy.Set(harness.Silent)) })
	must(o.t, proxy.Set(harness.FaultMode{}))
	o.staysAway(a, b)
}

// takeOver starts replica b, disables replica a, and waits until b has written a change.
func (o *own) takeOver(lose func()) (b *harness.Replica) {
	o.export("web", "a")
	o.await("web", "a")
	b = o.gateway("b", "")
	lose()
	began := time.Now()
	o.export("web", "b")
	o.await("web", "b")
	o.t.Logf("the other replica wrote after %v", time.Since(began))
	return b
}

// staysAway checks that a writes nothing after its return.
func (o *own) staysAway(a, b *harness.Replica) {
	o.export("web", "c")
	o.await("web", "c")
	await(o.t, "a sees that b is the writer", func() error {
		page, err := harness.ReadPage[adminapi.Exports](o.t.Context(), a.MetricsAddr(), "/debug/exports")
		if err == nil && (page.Writer.Holder != "b" || page.Writer.Leading) {
			err = fmt.Errorf("the writer is %+v", page.Writer)
		}
		return err
	})
	o.export("web", "d")
	o.await("web", "d")
	if ofA, ofB := o.writes(a), o.writes(b); ofA != 1 || ofB != 3 {
		o.t.Errorf("a wrote %v times, b wrote %v times", ofA, ofB)
	}
}
