package bench

import (
	"fmt"
	"time"

	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/bench/load"
	"isthmus/e2e/harness"
)

// CopiesScale is the size of the clusters that become unreachable.
type CopiesScale struct {
	Linked    int // linked clusters, which all become unreachable at once
	Services  int // Services per cluster
	Endpoints int // endpoints per Service and cluster
}

// copies returns a trial in which all linked clusters become unreachable at once. The first replica
// already runs and writes the copies. The second replica starts afterwards and reads the copies.
// There is no floor: the trial compares the start of the second replica with that of the first.
func copies(s Scale) Trial {
	c := s.Copies
	return Trial{
		Name: "copies", Claims: staleClusters, repeats: 1,
		Figures: []Figure{
			{Key: "written", Label: "time from the loss until all copies are complete", Unit: "s", Max: 30},
			{Key: "size", Label: "size of all copies", Unit: "MB"},
			{Key: "before", Label: "resident memory before the loss", Unit: "MB"},
			{Key: "growth", Label: "peak memory relative to memory before the loss", Unit: "×", Max: 2},
			{Key: "live", Label: "time to start from API servers", Unit: "s"},
			{Key: "copied", Label: "time to start from copies", Unit: "s"},
			{Key: "ratio", Label: "ratio of both times", Unit: "×", Max: 1},
			{Key: "cpu", Label: "CPU to start from copies, relative to a start from API servers", Unit: "×", Max: 1.2},
		},
		fleet: func(int) fleet.Config {
			return fleet.Config{
				Linked:    c.Linked,
				Services:  c.Services,
				Slices:    1,
				Endpoints: c.Endpoints,
				Joined:    true,
				Copies:    true,
			}
		},
		do: c.do,
	}
}

func (c CopiesScale) do(r *run) {
	writer := r.startReplica("writer")
	live := c.completeSet(writer)
	before := writer.settled()
	writer.resetPeak()

	lost := time.Now()
	r.fleet.Lose()
	var copied fleet.Copied
	check(harness.Poll(r.ctx, runLimit, 100*time.Millisecond, func() error {
		copied = r.fleet.Copied()
		if copied.Clusters != c.Linked {
			return fmt.Errorf("%d of %d stale clusters have a complete copy", copied.Clusters, c.Linked)
		}
		return nil
	}))
	r.pause(aftermath)
	r.set("written", copied.Last.Sub(lost).Seconds())
	r.set("size", megabytes(float64(copied.Bytes)))
	r.set("before", megabytes(before))
	r.set("growth", writer.peak()/before)

	reader := r.startReplica("reader")
	fromCopies := c.completeSet(reader)
	r.set("live", live.took.Seconds())
	r.set("copied", fromCopies.took.Seconds())
	r.set("ratio", fromCopies.took.Seconds()/live.took.Seconds())
	r.set("cpu", fromCopies.cpu.Seconds()/live.cpu.Seconds())
	r.set("live CPU", live.cpu.Seconds())
	r.set("live ready", writer.ready.Seconds())
	r.set("copied ready", reader.ready.Seconds())
}

// startCost is the cost of a replica from its start until a stream has received the endpoints of
// all clusters.
type startCost struct{ took, cpu time.Duration }

// completeSet waits until a stream has received the endpoints of all clusters. One Service is
// enough, because a replica adds all endpoints of a cluster at once.
func (c CopiesScale) completeSet(replica *server) startCost {
	stream := replica.open(load.Config{
		Conns:   1,
		Targets: []load.Target{{Authority: federated(c.Services - 1), Keep: true}},
	})
	replica.awaitEndpoints(stream, (c.Linked+1)*c.Endpoints)
	return startCost{took: latest(stream).Sub(replica.started), cpu: replica.cpu()}
}
