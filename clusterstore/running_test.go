package clusterstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/cluster"
)

const startTurn = startSteps * startStep

// many returns n link Secrets.
func many(n int) (list []*corev1.Secret) {
	for i := range n {
		list = append(list, secret(fmt.Sprintf("s%04d", i), fmt.Sprintf("c%04d", i), "t1", 0))
	}
	return list
}

// begun returns the clusters whose Run was called, in the order in which they were made.
func (e *env) begun() (list []*scripted) {
	for _, c := range e.made {
		if closed(c.running) {
			list = append(list, c)
		}
	}
	return list
}

// states counts the links by state and reason.
func (e *env) states() string {
	count := make(map[string]int)
	for _, s := range e.store.Status() {
		count[fmt.Sprintf("%s %s", s.State, s.Reason)]++
	}
	return fmt.Sprint(count)
}

// TestStartsAreBounded checks that only maxStarts clusters start at a time. The next cluster starts
// as soon as one of them has synced or failed.
func TestStartsAreBounded(t *testing.T) {
	const all = maxStarts + 10
	inBubble(t, func(e *env) {
		for done := 0; done < all; done++ {
			begun := e.begun()
			if want := min(all, done+maxStarts); len(begun) != want {
				e.t.Fatalf("%d clusters have started once %d are ready, want %d", len(begun), done, want)
			}
			for _, c := range begun {
				switch {
				case closed(c.synced) || c.Health().Err != nil:
					continue
				case done%2 == 0:
					c.sync()
				default:
					c.fail("connection refused")
				}
				break
			}
		}
		e.settled(true)
	}, many(all)...)
}

// TestTheGraceBeginsWithTheTurn checks that the grace period of a waiting cluster begins when the
// cluster starts.
func TestTheGraceBeginsWithTheTurn(t *testing.T) {
	inBubble(t, func(e *env) {
		if got, want := e.states(), fmt.Sprintf(
			"map[pending :%d pending waiting for its turn: Isthmus connects to at most %d clusters at a time:1]",
			maxStarts,
			maxStarts,
		); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		e.pass(startTurn)
		if got, want := e.states(), fmt.Sprintf("map[pending :%d]", maxStarts+1); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		e.pass(syncGrace - time.Nanosecond)
		if got, want := e.states(), fmt.Sprintf(
			"map[pending :1 unreachable not synced within 30s:%d]", maxStarts,
		); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		e.settled(false)
		e.pass(time.Nanosecond)
		e.settled(true)
	}, many(maxStarts+1)...)
}

// TestRemovedWhileItWaits checks that a waiting cluster whose Secret is deleted is never started.
// The cluster releases its memory and its place in the queue.
func TestRemovedWhileItWaits(t *testing.T) {
	inBubble(t, func(e *env) {
		var waiting *scripted
		for _, c := range e.made {
			if !closed(c.running) {
				waiting = c
			}
		}
		e.remove("s" + waiting.cfg.Name.String()[1:])
		for _, c := range e.begun() {
			c.sync()
		}
		if closed(waiting.running) || len(e.begun()) != maxStarts {
			t.Errorf("%d clusters have started", len(e.begun()))
		}
		if !waiting.isStopped() {
			t.Error("the removed cluster was not stopped")
		}
		e.settled(true)
		if !e.store.starts.TryAcquire(maxStarts) {
			t.Error("turns were not released")
		}
	}, many(maxStarts+1)...)
}

// TestRotationsTakeTurns checks that the number of rotations at a time is limited too. The old
// credentials serve until the new ones work.
func TestRotationsTakeTurns(t *testing.T) {
	inBubble(t, func(e *env) {
		for len(e.begun()) < len(e.made) || e.states() != fmt.Sprintf("map[ready :%d]", len(e.made)) {
			for _, c := range e.begun() {
				if !closed(c.synced) {
					c.sync()
				}
			}
		}
		before := len(e.made)
		for _, s := range many(before) {
			s.Data[KubeconfigKey] = []byte(kubeconfig("t2"))
			if _, err := e.client.CoreV1().Secrets("linkerd").Update(
				t.Context(), s, metav1.UpdateOptions{},
			); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := len(e.begun()); n != before+maxStarts { // the other 8 wait
			t.Errorf("%d of %d clusters have started", n-before, len(e.made)-before)
		}
		waiting := 0
		for _, st := range e.store.Status() {
			if st.State != cluster.Ready || len(st.Warnings) != 1 ||
				!strings.HasSuffix(st.Warnings[0], "; the old credentials stay in use") {
				t.Errorf("%s is %s, %q", st.Cluster, st.State, st.Warnings)
			} else if strings.HasPrefix(st.Warnings[0], "new credentials have not been tried yet") {
				waiting++
			}
		}
		if waiting != before-maxStarts {
			t.Errorf("new credentials wait in %d links", waiting)
		}
		for _, c := range e.made[:before] {
			if c.isStopped() {
				t.Error("a serving cluster was stopped")
			}
		}
	}, many(maxStarts+8)...)
}

// TestRotationThatCannotBeMade checks that credentials of which no client can be made are reported
// as unusable, even before their turn.
func TestRotationThatCannotBeMade(t *testing.T) {
	inBubble(t, func(e *env) {
		for len(e.begun()) < len(e.made) || e.states() != fmt.Sprintf("map[ready :%d]", len(e.made)) {
			for _, c := range e.begun() {
				if !closed(c.synced) {
					c.sync()
				}
			}
		}
		e.store.create = func(*rest.Config, cluster.Config) (Cluster, error) { return nil, errors.New("no client") }
		if !e.store.starts.TryAcquire(maxStarts) {
			t.Fatal("turns were not released")
		}
		s := many(1)[0]
		s.Data[KubeconfigKey] = []byte(kubeconfig("t2"))
		if _, err := e.client.CoreV1().Secrets("linkerd").Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if st := e.store.Status()[0]; len(st.Warnings) != 1 ||
			st.Warnings[0] != "new credentials do not work; the old credentials stay in use: no client" {
			t.Errorf("%s, %q", st.State, st.Warnings)
		}
		e.store.starts.Release(maxStarts)
	}, many(1)...)
}
