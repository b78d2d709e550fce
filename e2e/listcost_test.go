package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

var listPods = flag.Int("list-pods", 0, "measure the cost of lists of this `number` of Pods for an API server")

const (
	listNamespace = "listed"
	listRuns      = 5   // number of lists of each kind
	listPage      = 500 // Pods per page, as in Isthmus
)

// TestListCost measures the cost of listing all Pods for an API server and its etcd, which share a
// process. The list is requested in pages, in compressed pages, or as a stream. The API server is
// restarted before each list.
func TestListCost(t *testing.T) {
	if *listPods == 0 {
		t.Skip("-list-pods is not set")
	}
	t.Setenv("GOGC", "100") // the default of kube-apiserver and etcd, instead of that of the controlplane command
	t.Setenv("GOMEMLIMIT", "off")
	c := startClusters(t, []string{"namespace", "serviceaccount"}, "west")[0]
	createListed(t, c, *listPods)
	k := client(t, c)
	version, err := k.Discovery().ServerVersion()
	must(t, err)
	one, err := k.CoreV1().Pods(listNamespace).Get(t.Context(), listedPod(0).Name, metav1.GetOptions{})
	must(t, err)
	t.Logf("%d Pods of %d bytes; Kubernetes %s", *listPods, one.Size(), version)

	costs := map[string][]listCost{}
	for range listRuns {
		for _, kind := range []string{"pages", "compressed pages", "streamed"} {
			cost := measureList(t, c, kind)
			t.Logf("%s: %v", kind, cost)
			costs[kind] = append(costs[kind], cost)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(costs)) {
		t.Logf("median of %d, %s: %v", listRuns, kind, medianCost(costs[kind]))
	}
}

// createListed creates meshed Pods with a realistic size of about 6.4 kB.
func createListed(t *testing.T, c *harness.Cluster, n int) {
	ctx, k := t.Context(), client(t, c)
	must(t, k.Apply(ctx, kube.Namespace(listNamespace), kube.ServiceAccount(listNamespace, "web")))
	numbers := make(chan int)
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for i := range numbers {
				if err := kube.Create(ctx, k.CoreV1().Pods(listNamespace), listedPod(i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range n {
		numbers <- i
	}
	close(numbers)
	writers.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func listedPod(i int) *corev1.Pod {
	o := kube.Mesh(kube.Pod(listNamespace, fmt.Sprintf("web-5f79f964bc-%05d", i), "web"))
	o.OwnerReferences = []metav1.OwnerReference{kube.Owner("ReplicaSet", "web-5f79f964bc")}
	proxy := &o.Spec.Containers[1]
	for n := range 30 {
		proxy.Env = append(proxy.Env, corev1.EnvVar{
			Name:  fmt.Sprintf("LINKERD2_PROXY_SETTING_%d", n),
			Value: fmt.Sprintf("%d.value.%d.linkerd.svc.cluster.local.:8086", i, n),
		})
	}
	return o
}

type listCost struct {
	cpu       time.Duration
	peak      uint64 // peak resident memory in bytes above that before the list
	allocated uint64 // allocated bytes, including garbage
	took      time.Duration
	etcd      uint64 // number of lists of Pods that the API server requested from etcd
}

func (c listCost) String() string {
	return fmt.Sprintf("CPU %v; peak memory %+d MB; allocated %d MB; took %v; %d lists of etcd",
		c.cpu.Round(time.Millisecond), c.peak>>20, c.allocated>>20, c.took.Round(time.Millisecond), c.etcd)
}

func medianCost(all []listCost) listCost {
	return listCost{
		cpu:       median(all, func(c listCost) time.Duration { return c.cpu }),
		peak:      median(all, func(c listCost) uint64 { return c.peak }),
		allocated: median(all, func(c listCost) uint64 { return c.allocated }),
		took:      median(all, func(c listCost) time.Duration { return c.took }),
		etcd:      median(all, func(c listCost) uint64 { return c.etcd }),
	}
}

func median[T time.Duration | uint64](all []listCost, figure func(listCost) T) T {
	var figures []T
	for _, c := range all {
		figures = append(figures, figure(c))
	}
	slices.Sort(figures)
	return figures[len(figures)/2]
}

// measureList restarts the API server and measures the first list of all Pods.
func measureList(t *testing.T, c *harness.Cluster, kind string) (cost listCost) {
	t.Helper()
	must(t, c.Restart(t.Context()))
	config := c.REST()
	config.AcceptContentTypes, config.ContentType = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	config.DisableCompression = kind == "pages"
	k, err := kubernetes.NewForConfig(config)
	must(t, err)
	_, err = k.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{Limit: 1})
	must(t, err)
	awaitIdle(t, c)

	pid := controlplanePid(t, c)
	before := readCounters(t, k)
	rss, err := harness.ReadMemory(pid)
	must(t, err)
	must(t, harness.ResetPeak(pid))
	cpu, err := harness.CPUTime(pid)
	must(t, err)

	began, n := time.Now(), 0
	if kind == "streamed" {
		n, err = streamList(t.Context(), k)
	} else {
		n, err = pageList(t.Context(), k)
	}
	must(t, err)
	cost.took = time.Since(began)
	if n != *listPods {
		t.Fatalf("%d Pods are listed", n)
	}

	cpuAfter, err := harness.CPUTime(pid)
	must(t, err)
	peak, err := harness.PeakMemory(pid)
	must(t, err)
	after := readCounters(t, k)
	cost.cpu, cost.peak = cpuAfter-cpu, max(peak, rss.RSS)-rss.RSS
	cost.allocated, cost.etcd = after.allocated-before.allocated, after.etcd-before.etcd
	return cost
}

// awaitIdle waits until a restarted control plane is idle and has released the memory used at
// startup.
func awaitIdle(t *testing.T, c *harness.Cluster) {
	t.Helper()
	pid, began := controlplanePid(t, c), time.Now()
	last, err := harness.CPUTime(pid)
	must(t, err)
	await(t, "the control plane is idle", func() error {
		if err := harness.Pause(t.Context(), 2*time.Second); err != nil {
			return err
		}
		before := last
		if last, err = harness.CPUTime(pid); err != nil {
			return err
		}
		if used := last - before; used > 100*time.Millisecond || time.Since(began) < 8*time.Second {
			return fmt.Errorf("the control plane used %v of a processor", used)
		}
		return nil
	})
}

func controlplanePid(t *testing.T, c *harness.Cluster) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.Dir(), "pid"))
	must(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(t, err)
	return pid
}

// pageList lists all Pods in pages as Isthmus does, and returns their number.
func pageList(ctx context.Context, k kubernetes.Interface) (n int, err error) {
	for opts := (metav1.ListOptions{Limit: listPage}); ; {
		page, err := k.CoreV1().Pods("").List(ctx, opts)
		if err != nil {
			return n, err
		}
		n += len(page.Items)
		if opts.Continue = page.Continue; opts.Continue == "" {
			return n, nil
		}
	}
}

// streamList reads the initial events of a watch and returns the number of Pods.
func streamList(ctx context.Context, k kubernetes.Interface) (n int, err error) {
	w, err := k.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{
		AllowWatchBookmarks:  true,
		SendInitialEvents:    new(true),
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		return 0, err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		switch e.Type {
		case watch.Added:
			n++
		case watch.Bookmark:
			if e.Object.(*corev1.Pod).Annotations[metav1.InitialEventsAnnotationKey] == "true" {
				return n, nil
			}
		default:
			return n, fmt.Errorf("unexpected event %s: %v", e.Type, e.Object)
		}
	}
	return n, errors.New("the watch ended before the list")
}

type listCounters struct{ allocated, etcd uint64 }

func readCounters(t *testing.T, k kubernetes.Interface) (c listCounters) {
	t.Helper()
	text, err := k.CoreV1().RESTClient().Get().AbsPath("/metrics").SetHeader("Accept", "text/plain").DoRaw(t.Context())
	must(t, err)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(text)))
	must(t, err)
	for _, m := range families["go_memstats_alloc_bytes_total"].GetMetric() {
		c.allocated += uint64(m.GetCounter().GetValue())
	}
	for _, m := range families["etcd_request_duration_seconds"].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		if strings.HasPrefix(labels["operation"], "list") && labels["resource"] == "pods" {
			c.etcd += m.GetHistogram().GetSampleCount()
		}
	}
	return c
}
