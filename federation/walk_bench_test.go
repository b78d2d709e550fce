package federation

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"
)

// BenchmarkChangedDuringWalks measures Changed for a watched service amid 50,000 others while
// something walks over all of them. It reports the 99th percentile and the maximum of the latency
// of a change.
func BenchmarkChangedDuringWalks(b *testing.B) {
	const services = 50_000
	for _, x := range []struct {
		name string
		walk func(context.Context, *Table)
	}{
		{"none", func(ctx context.Context, _ *Table) { <-ctx.Done() }},
		{"Impact", func(ctx context.Context, t *Table) { _, _ = t.Impact(ctx, "c1", Withdrawn) }},
		{"Definitions", func(_ context.Context, t *Table) { t.Definitions() }},
		{"Unserved", func(_ context.Context, t *Table) { t.Unserved() }},
	} {
		b.Run(x.name, func(b *testing.B) {
			table, id := NewTable(Options{}), ServiceID{"ns", "web"}
			table.Link("c0", Ready, newFlip(0, 1))
			table.Link(Local, Ready, newCluster(Local))
			for i := range services {
				of := ServiceID{fmt.Sprint("ns-", i%500), fmt.Sprint("web-", i)}
				table.Define(of, &Definition{Members: []Member{{Local, of}}})
			}
			table.Define(id, &Definition{Federated: true, Members: []Member{{"c0", id}}})
			w := table.Watch(Key{id, 80, Client{}})
			defer w.Close()
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for ctx.Err() == nil {
					x.walk(ctx, table)
				}
			}()
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				table.Changed("c0", id, time.Time{})
				took = append(took, time.Since(began))
			}
			cancel()
			<-ended
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "max-ms")
		})
	}
}
