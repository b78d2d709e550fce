package e2e

import (
	"fmt"
	"regexp"
	"time"

	"isthmus/e2e/admin"
	"isthmus/e2e/gateway"
)

// written are the series of requests that write EndpointSlices. The API server sorts labels by name.
var written = regexp.MustCompile(`^apiserver_request_total\{.*resource="endpointslices".*verb="(POST|PUT|PATCH|APPLY|DELETE)"`)

// writes returns how often EndpointSlices have been created, changed or deleted since the API server started.
func (v *vms) writes() int64 {
	v.t.Helper()
	text, err := v.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(v.t.Context())
	must(v.t, err)
	samples, err := admin.Samples(string(text))
	must(v.t, err)
	n, _ := admin.Sum(samples, written)
	return int64(n)
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

// wrote checks how many writes each of two gateways has counted since it started; the second may be nil.
func (v *vms) wrote(a *gateway.Gateway, ofA int64, b *gateway.Gateway, ofB int64) {
	v.t.Helper()
	for g, want := range map[*gateway.Gateway]int64{a: ofA, b: ofB} {
		if g == nil {
			continue
		}
		// A gateway counts a write when it has the answer, which is after the slice can be read.
		await(v.t, "writes are counted", func() error {
			if got := v.counted(g); got != want {
				return fmt.Errorf("the gateway at %s has written %d times instead of %d", g.Addr(), got, want)
			}
			return nil
		})
	}
}

// counted returns how many writes a gateway has counted.
func (v *vms) counted(g *gateway.Gateway) int64 {
	v.t.Helper()
	samples, err := admin.Metrics(v.t.Context(), g.MetricsAddr())
	must(v.t, err)
	n, _ := admin.Sum(samples, regexp.MustCompile(`^isthmus_endpointslice_writes_total\{`))
	return int64(n)
}
