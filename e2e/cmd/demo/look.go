package main

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"isthmus/e2e/proxy"
)

// lookAround is the act that keeps all processes running until ctx ends. It prints how to inspect
// them, and adds a row to the table for each change to the proxy's endpoints.
type lookAround struct{ *demo }

func (l lookAround) play(ctx context.Context) error {
	bin := filepath.Dir(l.isthmus)
	l.screen.print("\nEverything keeps running until you press Ctrl-C. To look around, use another terminal:\n\n")
	ways := [][2]string{
		{"what a proxy sees, live", bin + "/isthmus get " + federated + " --addr " + l.gateway.Addr()},
		{"of a remote-discovery mirror", bin + "/isthmus get " + mirror + " --addr " + l.gateway.Addr()},
		{
			"the same by reflection",
			`grpcurl -plaintext -d '{"path":"` + federated + `"}' ` + l.gateway.Addr() +
				" io.linkerd.proxy.destination.Destination/Get",
		},
		{"the links and their states", "curl -s http://" + l.gateway.MetricsAddr() + "/debug/clusters"},
		{"the metrics", "curl -s http://" + l.gateway.MetricsAddr() + "/metrics"},
		{
			"scale east",
			"kubectl --kubeconfig " + l.servers[east].Kubeconfig() + " -n shop scale deployment web --replicas 6",
		},
		{"use the own cluster only, while it is well", "kubectl --kubeconfig " + l.servers[west].Kubeconfig() +
			" -n shop annotate service web-federated isthmus.io/prefer='local, any' isthmus.io/min-ready=50%"},
		{
			"cordon north",
			"kubectl --kubeconfig " + l.servers[west].Kubeconfig() +
				" -n linkerd annotate secret cluster-credentials-north isthmus.io/cordon=true",
		},
		{
			"unlink north",
			"kubectl --kubeconfig " + l.servers[west].Kubeconfig() +
				" -n linkerd delete secret cluster-credentials-north",
		},
		{"hang east's API server", "kill -STOP $(cat " + l.path("east/pid") + ")     (and kill -CONT)"},
		{"the log of Isthmus", "tail -f " + l.path("gateway.log")},
	}
	if l.options.networks {
		ways = append(ways, [2]string{"have north on another network again",
			"kubectl --kubeconfig " + l.servers[west].Kubeconfig() +
				" -n linkerd annotate secret cluster-credentials-north isthmus.io/network=far"})
	}
	for _, way := range ways {
		l.screen.print("  # %s\n  %s\n", way[0], way[1])
	}
	l.screen.print("\nWhat the first proxy sees from now on:\n\n")
	l.follow(ctx)
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause // a failure in the background
	}
	return nil
}

// follow prints a row whenever the number of endpoints changes.
func (l lookAround) follow(ctx context.Context) {
	before := byCluster(l.stream.Snapshot().Get).counts()
	for {
		changed := l.stream.Changed()
		snap := l.stream.Snapshot()
		if snap.Phase != proxy.Open {
			l.screen.print("  the stream ended: %v\n", snap.Err)
			<-ctx.Done()
			return
		}
		now := byCluster(snap.Get).counts()
		if !slices.Equal(now, before) {
			l.screen.finish(row{title: time.Now().Format(time.TimeOnly), before: before, now: now})
			before = now
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
