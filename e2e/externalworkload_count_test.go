package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"isthmus/e2e/gateway"
)

// writes is how many EndpointSlices the API server says have been created, changed or deleted since it started.
func (v *vms) writes() int64 {
	v.t.Helper()
	text, err := v.client.RESTClient().Get().AbsPath("/metrics").DoRaw(v.t.Context())
	must(v.t, err)
	n := int64(0)
	for _, verb := range []string{"POST", "PUT", "PATCH", "APPLY", "DELETE"} {
		n += count(v.t, text, "apiserver_request_total", `resource="endpointslices"`, fmt.Sprintf("verb=%q", verb))
	}
	return n
}

// pause returns when nothing has been written for longer than the gateway leaves a Service alone after a write.
func (v *vms) pause() {
	v.t.Helper()
	before := int64(-1)
	for now := v.writes(); now != before; now = v.writes() {
		before = now
		<-time.After(1500 * time.Millisecond)
	}
}

// wrote checks how many writes each of two gateways says it has made since it started; the second may be nil.
func (v *vms) wrote(a *gateway.Gateway, ofA int64, b *gateway.Gateway, ofB int64) {
	v.t.Helper()
	for g, want := range map[*gateway.Gateway]int64{a: ofA, b: ofB} {
		if g == nil {
			continue
		}
		// A gateway counts a write when it has the answer, which is after the slice can be read.
		v.await("writes are counted", time.Minute, func() error {
			if got := v.counted(g); got != want {
				return fmt.Errorf("the gateway at %s has written %d times instead of %d", g.Addr(), got, want)
			}
			return nil
		})
	}
}

// counted is how often a gateway says that it has written.
func (v *vms) counted(g *gateway.Gateway) int64 {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.t.Context(), http.MethodGet, "http://"+g.MetricsAddr()+"/metrics", nil)
	must(v.t, err)
	resp, err := http.DefaultClient.Do(req)
	must(v.t, err)
	text, err := io.ReadAll(resp.Body)
	must(v.t, err)
	must(v.t, resp.Body.Close())
	return count(v.t, text, "isthmus_endpointslice_writes_total")
}

// count adds up the samples of a metric whose labels contain these.
func count(t *testing.T, text []byte, name string, labels ...string) int64 {
	t.Helper()
	sum := int64(0)
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		series, value, _ := strings.Cut(lines.Text(), "} ")
		if !strings.HasPrefix(series, name+"{") {
			continue
		}
		all := true
		for _, l := range labels {
			all = all && strings.Contains(series, l)
		}
		if !all {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		must(t, err)
		sum += int64(n)
	}
	return sum
}

// await waits until check has nothing to object.
func (v *vms) await(what string, most time.Duration, check func() error) {
	v.t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(v.t.Context(), 20*time.Millisecond, most, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	if err != nil {
		v.t.Fatalf("not within %v: %s: %v", most, what, last)
	}
}
