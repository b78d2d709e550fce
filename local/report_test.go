package local

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/follow"
	"isthmus/federation"
)

func TestChangesAreReported(t *testing.T) {
	var got []string
	inBubbleWith(t, Options{Cordon: federation.Withdrawn, Report: func(c cluster.Change) {
		got = append(got, fmt.Sprint(c.Cluster, " ", c.Kind, " ", c.Problem, " ", c.Text))
	}}, func(e *env) {
		for range 2 {
			e.health(cluster.Health{Health: follow.Health{Err: errors.New("refused")}})
		}
		e.health(cluster.Health{})
		e.sync()
		e.health(cluster.Health{Health: follow.Health{Err: errors.New("gone"), StaleSince: time.Now()}})
		e.health(cluster.Health{})
		want := []string{
			"local 0 false pending", "local 1 true withdrawn: cordoned by --cordon-local", "local 0 true unreachable: refused",
			"local 0 false ready", "local 0 true stale: gone", "local 0 false ready",
		}
		if !slices.Equal(got, want) {
			t.Errorf("reported\n%q, want\n%q", got, want)
		}
	})
}
