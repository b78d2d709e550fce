package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"isthmus/e2e/kube"
	"isthmus/e2e/poll"
	"isthmus/e2e/proxy"
)

// look is how often the API is looked at.
const look = 100 * time.Millisecond

// Config is which Pods to run, and how.
type Config struct {
	Client    *kube.Client
	CA        []byte   // the cluster's certificate authority
	Nodes     []string // which must exist
	Namespace string
	Selector  string // the Pods' labels
	Container string // which of a Pod's containers runs; of the others nothing does
	Service   string // the headless Service by which proxies find the Pods
	Subnet    string // of the Pods' addresses, such as 10.244.1
	Binary    string // as of pod.Config
	Dir       string // an empty folder, for the Pods' files
}

// Nodes run Pods. Its methods may be called from several goroutines.
type Nodes struct {
	cfg     Config
	records *proxy.Records

	mu     sync.Mutex
	runs   []*Run
	known  map[types.UID]*life
	byIP   map[string]string // the process's address, by the Pod's
	failed []error
}

// Run is what has become of a Pod. Moments that have not come yet are zero.
type Run struct {
	Pod, Node, Addr string
	Started         time.Time // before the process was started
	Ready           time.Time // when its status was
	Term            time.Time // SIGTERM
	Ended           time.Time
	Killed          bool // it had not ended within its grace
	Grace           time.Duration
}

// New returns nodes that run nothing yet.
func New(cfg Config) *Nodes {
	return &Nodes{cfg: cfg, records: proxy.NewRecords(), known: map[types.UID]*life{}, byIP: map[string]string{}}
}

// Records returns the Service's DNS records.
func (n *Nodes) Records() *proxy.Records { return n.records }

// Runs returns what has become of all Pods, in the order in which they came.
func (n *Nodes) Runs() (all []Run) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.runs {
		all = append(all, *r)
	}
	return all
}

// Err returns what went wrong: Pods that could not be started, and processes that ended before they were asked to.
func (n *Nodes) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return errors.Join(n.failed...)
}

func (n *Nodes) fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failed = append(n.failed, err)
}

// Run runs Pods until ctx ends, and then ends their processes at once. A busy API server may fail now and then.
func (n *Nodes) Run(ctx context.Context) {
	var lives sync.WaitGroup
	defer lives.Wait()
	for poll.Pause(ctx, look) == nil {
		pods, err := n.cfg.Client.CoreV1().Pods(n.cfg.Namespace).List(ctx, metav1.ListOptions{LabelSelector: n.cfg.Selector})
		if err != nil {
			continue
		}
		for i := range pods.Items {
			n.see(ctx, &pods.Items[i], &lives)
		}
		n.resolve(ctx)
	}
}

// see begins a Pod's life, or passes on that it is to end.
func (n *Nodes) see(ctx context.Context, p *corev1.Pod, lives *sync.WaitGroup) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.known[p.UID]
	if l == nil && p.DeletionTimestamp == nil {
		r := &Run{Pod: p.Name, Node: n.choose(p), Started: time.Now()}
		n.runs = append(n.runs, r)
		l = &life{nodes: n, pod: p.DeepCopy(), run: r, over: make(chan time.Duration, 1),
			ip: fmt.Sprintf("%s.%d", n.cfg.Subnet, len(n.runs))}
		n.known[p.UID] = l
		lives.Go(func() {
			if err := l.live(ctx); err != nil && ctx.Err() == nil {
				n.fail(fmt.Errorf("run Pod %s: %w", p.Name, err))
			}
		})
	}
	if l != nil && p.DeletionTimestamp != nil && !l.ending {
		l.ending = true
		l.over <- time.Duration(*p.DeletionGracePeriodSeconds) * time.Second
	}
}

// choose returns the node that has the fewest Pods of the same ReplicaSet that have not ended. The caller holds mu.
func (n *Nodes) choose(p *corev1.Pod) string {
	load := func(node string) (count int) {
		for _, l := range n.known {
			if l.run.Node == node && l.run.Term.IsZero() && l.pod.Labels[hashLabel] == p.Labels[hashLabel] {
				count++
			}
		}
		return count
	}
	return slices.MinFunc(n.cfg.Nodes, func(a, b string) int { return load(a) - load(b) })
}

const hashLabel = "pod-template-hash"

// resolve makes the records what the Service's EndpointSlices are.
func (n *Nodes) resolve(ctx context.Context) {
	list, err := n.cfg.Client.DiscoveryV1().EndpointSlices(n.cfg.Namespace).List(ctx,
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + n.cfg.Service})
	if err != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	var addrs []string
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			if ready := e.Conditions.Ready; ready != nil && *ready && n.byIP[e.Addresses[0]] != "" {
				addrs = append(addrs, n.byIP[e.Addresses[0]])
			}
		}
	}
	n.records.Set(addrs...)
}
