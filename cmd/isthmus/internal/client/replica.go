package client

import (
	"context"
	"fmt"
	"strings"

	"isthmus/cmd/isthmus/internal/reach"
)

// replica is one server of a gateway.
type replica struct {
	name string                                     // HOST:PORT, or NAMESPACE/POD
	dial func(context.Context) (*reach.Conn, error) // nil: the name is its address
	// notReady is set if it is not asked, since its Pod is not ready.
	notReady error
}

// notReadyError is that the Pod of a gateway is not ready.
type notReadyError struct{ pod, why, hint string }

func (e *notReadyError) Error() string {
	return fmt.Sprintf("Pod %s is not ready: %s\n  %s", e.pod, e.why, e.hint)
}

// find returns the gateways that the flags choose: at least one that can be asked, and after
// those the replicas that are not ready. The function that it returns must be called once none
// of them is in use.
func (o *Target) find(ctx context.Context, w *waiting, port func(reach.Gateway) int) ([]replica, func(), error) {
	if o.Address != "" {
		return []replica{{name: o.Address}}, func() {}, nil
	}
	cluster, err := o.Open()
	if err != nil {
		return nil, nil, err
	}
	w.on(cluster.String(), cluster.String())
	gateways, err := cluster.Gateways(ctx)
	if err != nil {
		cluster.Close()
		return nil, nil, err
	}
	var replicas []replica
	for _, g := range gateways {
		t := replica{name: g.String(), dial: func(ctx context.Context) (*reach.Conn, error) { return g.Dial(ctx, port(g)) }}
		if g.NotReady != "" {
			t.notReady = &notReadyError{g.String(), g.NotReady, fmt.Sprintf("kubectl describe pod -n %s %s shows why; --pod %[2]s asks it all the same", Printable(g.Namespace), Printable(g.Name))}
		}
		replicas = append(replicas, t)
	}
	return replicas, cluster.Close, nil
}

// names returns the names of those that are asked, for messages.
func names(replicas []replica) string {
	list := make([]string, 0, len(replicas))
	for _, t := range replicas {
		if t.notReady == nil {
			list = append(list, t.name)
		}
	}
	return strings.Join(list, " and ")
}

func adminPort(g reach.Gateway) int { return g.AdminPort }
func grpcPort(g reach.Gateway) int  { return g.GRPCPort }
