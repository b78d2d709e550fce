package main

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"isthmus/e2e/proxy"
)

// lookAround leaves everything running until ctx ends, prints how to look at it,
// and goes on with the table while the proxy sees changes.
func (d *demo) lookAround(ctx context.Context) {
	bin := filepath.Dir(d.isthmus)
	d.screen.print("\nEverything is left running until Ctrl-C. To look around, in another terminal:\n\n")
	ways := [][2]string{
		{"what a proxy sees, live", bin + "/isthmus get " + federated + " --addr " + d.gateway.Addr()},
		{"of a remote-discovery mirror", bin + "/isthmus get " + mirror + " --addr " + d.gateway.Addr()},
		{"the same by reflection", `grpcurl -plaintext -d '{"path":"` + federated + `"}' ` + d.gateway.Addr() + " io.linkerd.proxy.destination.Destination/Get"},
		{"the links and their states", "curl -s http://" + d.gateway.MetricsAddr() + "/debug/clusters"},
		{"the metrics", "curl -s http://" + d.gateway.MetricsAddr() + "/metrics"},
		{"scale east", "kubectl --kubeconfig " + d.servers[east].Kubeconfig() + " -n shop scale deployment web --replicas 6"},
		{"use the own cluster only, while it is well", "kubectl --kubeconfig " + d.servers[west].Kubeconfig() +
			" -n shop annotate service web-federated isthmus.io/prefer='local, any' isthmus.io/min-ready=50%"},
		{"cordon north", "kubectl --kubeconfig " + d.servers[west].Kubeconfig() + " -n linkerd annotate secret cluster-credentials-north isthmus.io/cordon=true"},
		{"unlink north", "kubectl --kubeconfig " + d.servers[west].Kubeconfig() + " -n linkerd delete secret cluster-credentials-north"},
		{"hang east's API server", "kill -STOP $(cat " + d.path("east/pid") + ")     (and kill -CONT)"},
		{"the gateway's log", "tail -f " + d.path("gateway.log")},
	}
	if d.options.networks {
		ways = append(ways, [2]string{"have north on another network again",
			"kubectl --kubeconfig " + d.servers[west].Kubeconfig() + " -n linkerd annotate secret cluster-credentials-north isthmus.io/network=far"})
	}
	for _, way := range ways {
		d.screen.print("  # %s\n  %s\n", way[0], way[1])
	}
	d.screen.print("\nWhat the proxy of before sees from now on:\n\n")
	d.follow(ctx)
}

// follow prints a row whenever the stream's numbers have changed.
func (d *demo) follow(ctx context.Context) {
	before := byCluster(d.stream.Snapshot().Get).counts()
	for {
		changed := d.stream.Changed()
		snap := d.stream.Snapshot()
		if snap.Phase != proxy.Open {
			d.screen.print("  the stream has ended: %v\n", snap.Err)
			<-ctx.Done()
			return
		}
		now := byCluster(snap.Get).counts()
		if !slices.Equal(now, before) {
			d.screen.finish(row{title: time.Now().Format(time.TimeOnly), before: before, now: now})
			before = now
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
