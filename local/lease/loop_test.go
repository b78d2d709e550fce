package lease

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurns checks that each turn, and each group within a turn, comes first in some pass. The
// number of other turns must not matter.
func TestTurns(t *testing.T) {
	var tasks []Task[string]
	for _, of := range []string{"a/1/x", "a/1/y", "a/2/z", "b/1/x", "c/1/x"} {
		parts := strings.Split(of, "/")
		tasks = append(tasks, Task[string]{Key: parts[0] + "/" + parts[2], Turn: parts[0], Within: parts[1]})
	}
	for pass, want := range []string{"a/x b/x c/x a/z a/y", "b/x c/x a/z a/x a/y", "c/x a/x b/x a/z a/y"} {
		var got []string
		for _, one := range inTurn(tasks, pass) {
			got = append(got, one.Key)
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("pass %d: %s, want %s", pass, text, want)
		}
	}
}

// TestHanging checks that hanging tasks of one turn do not block tasks of other turns, including
// tasks left to the next pass. When the context ends, no task begins, and Run returns once the
// running tasks have ended.
func TestHanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		hang := func(context.Context) Outcome { <-release; return Outcome{} }
		l := NewLoop(Options[string]{Changed: func() <-chan struct{} { return nil }, MaxPause: time.Second})
		l.Pass = func() Pass[string] {
			var p Pass[string]
			for turn := range 3 {
				for i := range 10 {
					p.Tasks = append(p.Tasks, Task[string]{
						Key:     fmt.Sprint(turn, "/", i),
						Turn:    fmt.Sprint("stuck-", turn),
						Do:      hang,
						Passing: turn == 2,
					})
				}
			}
			p.Tasks = append(p.Tasks, Task[string]{
				Key:  "well",
				Turn: "well",
				Do:   func(context.Context) Outcome { return Outcome{} },
			})
			return p
		}
		work, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { l.Run(work); close(ended) }()
		time.Sleep(3 * time.Second)
		if h := l.History("well"); h.at.IsZero() {
			t.Error("another turn waits for the hanging tasks")
		}
		stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		select {
		case <-ended:
			t.Error("Run returned while tasks were running")
		default:
		}
		if n := len(l.writing); n != 3*maxOfTurn {
			t.Errorf("%d tasks are running", n)
		}
		close(release)
		<-ended
	})
}

// TestHistory checks that failed tasks are retried with increasing delays. A failure is dropped
// once its object needs no work, but not while the work is unknown.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, tries, over, unknown := time.Now(), []time.Duration(nil), new(atomic.Bool), new(atomic.Bool)
		l := NewLoop(Options[string]{Changed: func() <-chan struct{} { return nil }, MaxPause: time.Second})
		l.Pass = func() (p Pass[string]) {
			if p.Unknown = unknown.Load(); !over.Load() && !p.Unknown {
				p.Tasks = []Task[string]{{Key: "x", Do: func(context.Context) Outcome {
					tries = append(tries, time.Since(begin).Round(time.Second))
					return Outcome{Problem: "no"}
				}}}
			}
			p.Due = time.Now().Add(time.Minute)
			return p
		}
		work, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { l.Run(work); close(ended) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := fmt.Sprint(tries[:7]); got != "[0s 1s 3s 7s 15s 31s 1m3s]" || len(tries) < 18 || len(tries) > 22 {
			t.Errorf("tries at %v", tries)
		}
		failures := l.History("x").Failures
		unknown.Store(true)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if h := l.History("x"); h.Failures < failures || h.Problem != "no" {
			t.Errorf("the failure was dropped while the work is unknown: %+v", h)
		}
		unknown.Store(false)
		over.Store(true)
		time.Sleep(61 * time.Second) // before the next retry
		synctest.Wait()
		if h := l.History("x"); h.Failures > 0 || h.Problem != "" {
			t.Errorf("the failure is still cached: %+v", h)
		}
		stop()
		<-ended
	})
}

// TestUndone checks that content that others revert is written three times with increasing delays.
// After that, it is written once in MaxPause.
func TestUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writes []time.Duration
		begin := time.Now()
		l := NewLoop(Options[string]{
			Changed:  func() <-chan struct{} { return nil },
			MaxPause: time.Minute,
		})
		write := func(context.Context) Outcome {
			writes = append(writes, time.Since(begin).Round(time.Second))
			return Outcome{Reverted: len(writes) > 1, Managers: "somebody", Content: "x"}
		}
		l.Pass = func() Pass[string] {
			return Pass[string]{Tasks: []Task[string]{{Key: "x", Do: write}}}
		}
		work, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			l.Run(work)
			close(ended)
		}()
		time.Sleep(150 * time.Second)
		synctest.Wait()
		if got := fmt.Sprint(writes); got != "[0s 1s 3s 7s 1m7s 2m7s]" {
			t.Errorf("writes at %v", got)
		}
		if h := l.History("x"); !h.ChangedBack() || h.Managers != "somebody" {
			t.Errorf("%+v", h)
		}
		stop()
		<-ended
	})
}
