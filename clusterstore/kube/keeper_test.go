package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"isthmus/internal/adminapi"
)

// lookedAt is an API server without a network that counts requests.
type lookedAt struct {
	mu      sync.Mutex
	anchors string // the data of the ConfigMap; if empty, the ConfigMap does not exist
	cidr    string // of its only Node
	hangs   bool   // whether further requests hang
	asked   map[string]int
	current *int // hanging requests of all servers
	most    *int // maximum of current
}

func newLookedAt() *lookedAt {
	return &lookedAt{cidr: "10.0.0.0/24", asked: make(map[string]int), current: new(int), most: new(int)}
}

var hanging sync.Mutex // guards current and most

func (l *lookedAt) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	hangs, status, body, kind := l.hangs, http.StatusOK, "", "application/json"
	what := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	l.asked[what]++
	switch what {
	case "version":
		body = `{"gitVersion":"v1.36.3"}`
	case "nodes":
		body, kind = nodeList(l.cidr), runtime.ContentTypeProtobuf
	default:
		if body = l.anchors; body == "" {
			status, body = http.StatusNotFound,
				`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
		}
	}
	l.mu.Unlock()
	if hangs {
		l.hang(r.Context())
		return nil, r.Context().Err()
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Request: r,
		Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

// nodeList returns a list of one Node as API servers encode it.
func nodeList(cidr string) string {
	list := &corev1.NodeList{Items: []corev1.Node{{}}}
	list.Items[0].Name, list.Items[0].Spec.PodCIDR = "n", cidr
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	var text bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(list, &text); err != nil {
		panic(err)
	}
	return text.String()
}

func (l *lookedAt) hang(ctx context.Context) {
	add := func(n int) {
		hanging.Lock()
		defer hanging.Unlock()
		*l.current += n
		*l.most = max(*l.most, *l.current)
	}
	add(1)
	<-ctx.Done()
	add(-1)
}

func (l *lookedAt) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// counts returns the numbers of requests for the ConfigMap and for Nodes.
func (l *lookedAt) counts() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprint(l.asked[AnchorsConfigMap], l.asked["nodes"])
}

// keep runs a Keeper that has read the server once.
func (l *lookedAt) keep(t *testing.T, turns Turns) *Keeper {
	t.Helper()
	cfg := &rest.Config{Host: "http://east"}
	cfg.Wrap(func(http.RoundTripper) http.RoundTripper { return l })
	client, err := New("east", cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	k := NewKeeper(client, "linkerd", turns)
	listed := make(chan struct{})
	close(listed)
	go k.Run(t.Context(), listed)
	if _, err := Version(t.Context(), client.Sources); err != nil { // the first response
		t.Fatal(err)
	}
	synctest.Wait()
	if k.Facts() == nil {
		t.Fatal("the Keeper has read no facts")
	}
	return k
}

// look waits for a Look, and returns its duration and the facts that it leaves.
func look(k *Keeper) (took time.Duration, s adminapi.APIServer) {
	began := time.Now()
	<-k.Look()
	k.Facts().AddTo(&s)
	return time.Since(began), s
}

// TestLook checks that a Look reads what has changed, but not more often than allowed. Facts that
// cannot be read stay, with their age.
func TestLook(t *testing.T) {
	anchors, err := json.Marshal(map[string]any{
		"kind": "ConfigMap", "apiVersion": "v1", "data": map[string]string{anchorsKey: certificate(t, time.Hour)},
	})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		l := newLookedAt()
		k := l.keep(t, NewTurns())
		expect := func(step, counts string, took time.Duration, noAnchors bool, anchorsAge, networksAge int,
			cidr string,
		) {
			t.Helper()
			n, s := look(k)
			if got := l.counts(); got != counts {
				t.Errorf("%s: %s requests, want %s", step, got, counts)
			}
			if n != took {
				t.Errorf("%s: took %v, want %v", step, n, took)
			}
			if (len(s.Anchors.List) == 0) != noAnchors || (s.Anchors.Error != "") != noAnchors {
				t.Errorf("%s: anchors %+v", step, s.Anchors)
			}
			if s.Anchors.AgeSeconds != anchorsAge || s.Networks.AgeSeconds != networksAge ||
				fmt.Sprint(s.Networks.CIDRs) != "["+cidr+"]" {
				t.Errorf("%s: anchors %+v, networks %+v", step, s.Anchors, s.Networks)
			}
		}
		l.set(func() { l.anchors, l.cidr = string(anchors), "10.0.1.0/24" })
		time.Sleep(9 * time.Second)
		expect("too soon", "1 1", 0, true, 9, 9, "10.0.0.0/24")
		time.Sleep(time.Second)
		expect("the ConfigMap exists", "2 1", 0, false, 0, 10, "10.0.0.0/24")
		time.Sleep(50 * time.Second)
		expect("another Node", "3 2", 0, false, 0, 0, "10.0.1.0/24")
		l.set(func() { l.anchors = `{"kind":"ConfigMap","apiVersion":"v1"}` })
		time.Sleep(10 * time.Second)
		expect("the ConfigMap is broken", "4 2", 0, true, 0, 10, "10.0.1.0/24")
		l.set(func() { l.anchors = string(anchors) })
		time.Sleep(50 * time.Second)
		expect("the ConfigMap is repaired", "5 3", 0, false, 0, 0, "10.0.1.0/24")
		l.set(func() { l.hangs = true })
		time.Sleep(time.Minute)
		expect("the server hangs", "6 4", lookTimeout, false, 70, 70, "10.0.1.0/24")
		time.Sleep(59 * time.Second)
		expect("the server hangs, without a request", "6 4", 0, false, 129, 129, "10.0.1.0/24")
		l.set(func() { l.hangs, l.anchors = false, "" })
		time.Sleep(time.Second)
		expect("the server responds again", "7 5", 0, true, 0, 0, "10.0.1.0/24")
	})
}

// TestLookTurns checks that at most looksAtOnce unresponsive clusters are read at a time. Every
// Look ends.
func TestLookTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, first := NewTurns(), newLookedAt()
		var keepers []*Keeper
		for range 3*looksAtOnce - 1 {
			l := newLookedAt()
			l.current, l.most = first.current, first.most
			keepers = append(keepers, l.keep(t, turns))
			l.set(func() { l.hangs = true })
		}
		time.Sleep(anchorsEvery)
		began := time.Now()
		var looks []<-chan struct{}
		for _, k := range keepers {
			looks = append(looks, k.Look())
		}
		for _, one := range looks {
			<-one
		}
		hanging.Lock()
		defer hanging.Unlock()
		if *first.most > looksAtOnce || time.Since(began) > 3*lookTimeout {
			t.Errorf("%d at once, all within %v", *first.most, time.Since(began))
		}
	})
}

// TestLookAtNobody checks that a Look at a cluster that has never responded ends when the Keeper
// stops. A second Look shares its result.
func TestLookAtNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := New("east", &rest.Config{Host: "http://127.0.0.1:1"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		k := NewKeeper(client, "linkerd", nil)
		ctx, cancel := context.WithCancel(t.Context())
		go k.Run(ctx, nil)
		looked := k.Look()
		synctest.Wait()
		select {
		case <-looked:
			t.Error("the Look ended although the server has never responded")
		default:
		}
		if k.Look() != looked {
			t.Error("a second Look was started")
		}
		cancel()
		<-looked
	})
}
