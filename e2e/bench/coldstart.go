package bench

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/protobuf/proto"

	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/bench/load"
	"isthmus/e2e/harness"
	"isthmus/e2e/proxy"
)

// ColdScale is the size of the clusters for a cold start.
type ColdScale struct {
	Clusters  int // including the local cluster
	Services  int // number of federated Services, which exist in all clusters
	Endpoints int // endpoints per Service and cluster, each with its own Pod
	Repeats   int
}

// coldStart returns a trial that starts a replica repeatedly. Its floor is a process that lists the
// same objects.
func coldStart(s Scale, name, claims string, c ColdScale) Trial {
	return Trial{
		Name: name, Claims: claims, floor: true, repeats: c.Repeats,
		Figures: []Figure{
			{Key: "ready", Label: "time until ready", Unit: "s", MaxRatio: atFloor},
			{Key: "first", Label: "time until the first message", Unit: "s", MaxRatio: atFloor},
			{Key: "cpu", Label: "CPU", Unit: "s"},
			{Key: "stays", Label: "settled resident memory", Unit: "MB"},
			{Key: "growth", Label: "peak memory relative to settled memory", Unit: "×", Max: 2},
		},
		fleet: func(int) fleet.Config {
			return fleet.Config{
				Linked:    c.Clusters - 1,
				Services:  c.Services,
				Slices:    1,
				Endpoints: c.Endpoints,
				Joined:    true,
			}
		},
		do: func(r *run) {
			if r.kind == Floor {
				list(r, c)
			} else {
				coldStartReplica(r, c)
			}
		},
	}
}

// list runs a process that lists all objects. Its duration is the floor for the replica's times.
func list(r *run, c ColdScale) {
	began := time.Now()
	p := must(harness.StartProcess(harness.ProcessConfig{
		Path: r.List[0], Args: append(slices.Clip(r.List[1:]), r.kubeconfig), Output: os.Stderr, Announces: true,
	}))
	r.atEnd(p.Close)
	line := must(p.AwaitLine(r.ctx))
	took := time.Since(began).Seconds()
	if n, err := strconv.Atoi(line); err != nil || n != c.Clusters*c.Services*(2+c.Endpoints)+c.Services {
		check(fmt.Errorf("%q objects listed, want all", line))
	}
	r.set("ready", took)
	r.set("first", took)
}

// coldStartReplica starts a replica and requests a service with endpoints in all clusters.
func coldStartReplica(r *run, c ColdScale) {
	at := r.start()
	stream := at.open(load.Config{Conns: 1, Targets: []load.Target{{Authority: federated(c.Services - 1), Keep: true}}})
	r.awaitEndpoints(stream, c.Clusters*c.Endpoints)
	r.set("ready", at.ready.Seconds())
	stream.Arrivals(func(_ load.Target, all []time.Time) {
		r.set("first", all[0].Sub(at.started).Seconds())
	})
	stays := at.settled()
	r.set("stays", megabytes(stays))
	r.set("growth", at.peak()/stays)
	r.set("cpu", at.cpu().Seconds())
}

// folded returns the state of a proxy that has received the messages.
func folded(messages [][]byte) (*proxy.GetState, error) {
	state := &proxy.GetState{}
	for _, m := range messages {
		u := &pb.Update{}
		if err := proto.Unmarshal(m, u); err != nil {
			return nil, err
		}
		if faults := state.Apply(u); faults != nil {
			return nil, fmt.Errorf("faults of the server: %q", faults)
		}
	}
	return state, nil
}
