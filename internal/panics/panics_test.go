package panics

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"isthmus/federation"
)

var web = Work{Where: Service, Service: federation.ServiceID{Namespace: "shop", Name: "web"}}

// supervised runs f with a Supervisor that retries, and with the Supervisor's log.
func supervised(t *testing.T, f func(*Supervisor, *observer.ObservedLogs)) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		s := New(zap.New(core))
		ctx, end := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = s.Run(ctx)
		}()
		f(s, logs)
		end()
		<-done
	})
}

// TestPauses checks the pauses before retries of work that keeps panicking. The first pause is 1 s,
// and each pause is twice the previous one, up to 5 min. After a success, the next pause is 1 s
// again.
func TestPauses(t *testing.T) {
	supervised(t, func(s *Supervisor, _ *observer.ObservedLogs) {
		broken := true
		var tries []time.Duration
		start := time.Now()
		var do func()
		do = func() {
			s.Do(web, func() {
				tries = append(tries, time.Since(start))
				if broken {
					panic("boom")
				}
			}, do)
		}
		want := []time.Duration{0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 811, 1111}
		for range 2 {
			start, tries, broken = time.Now(), nil, true
			do()
			time.Sleep(1112 * time.Second)
			synctest.Wait()
			var seconds []time.Duration
			for _, at := range tries {
				seconds = append(seconds, at/time.Second)
			}
			if !slices.Equal(seconds, want) {
				t.Errorf("tries after %v s, want %v", seconds, want)
			}
			broken = false
			if list := s.Failures(); len(list) != 1 || list[0].Panics != len(want) || list[0].Panic != "boom" ||
				list[0].Service != web.Service || !list[0].Since.Equal(start) {
				t.Errorf("failures: %+v", list)
			}
			time.Sleep(MaxPause)
			synctest.Wait()
			if list := s.Failures(); len(list) != 0 {
				t.Errorf("failures after success: %+v", list)
			}
		}
	})
}

// TestOthersAreNotRetried checks that successful work of another name changes nothing, and that any
// successful Do of the work ends its failure.
func TestOthersAreNotRetried(t *testing.T) {
	supervised(t, func(s *Supervisor, _ *observer.ObservedLogs) {
		again := func() { t.Error("retried after a success") }
		s.Do(web, func() { panic("boom") }, again)
		other := web
		other.Service.Name = "api"
		s.Do(other, func() {}, again)
		if len(s.Failures()) != 1 {
			t.Error("the success of other work ended the failure")
		}
		s.Do(web, func() {}, again)
		if len(s.Failures()) != 0 {
			t.Error("a success did not end the failure")
		}
		time.Sleep(time.Hour)
	})
}

// TestPanicMeanwhile checks that a success does not end a failure that began after the successful
// Do.
func TestPanicMeanwhile(t *testing.T) {
	supervised(t, func(s *Supervisor, _ *observer.ObservedLogs) {
		retried := 0
		again := func() { retried++ }
		for range 2 { // without an earlier failure, and with one
			s.Do(web, func() { s.Do(web, func() { panic("boom") }, again) }, again)
			if len(s.Failures()) != 1 {
				t.Fatal("the failure was ended")
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if retried != 1 {
			t.Errorf("retried %d times", retried)
		}
	})
}

// TestLoggedOnceAnHour checks that each stack is logged once an hour with its text, and that all
// panics are counted.
func TestLoggedOnceAnHour(t *testing.T) {
	supervised(t, func(s *Supervisor, logs *observer.ObservedLogs) {
		one := func() { panic("one") }
		two := func() { panic("two\x1b[31m" + strings.Repeat("!", 10000)) }
		start := time.Now()
		for time.Since(start) < 150*time.Minute {
			for _, f := range []func(){one, two} {
				s.Do(web, f, func() {})
			}
			time.Sleep(time.Minute)
		}
		lines := logs.FilterMessageSnippet("panic:").All()
		if len(lines) != 6 {
			t.Fatalf("%d lines for two stacks in 150 min", len(lines))
		}
		fields := lines[1].ContextMap()
		stack := fmt.Sprint(fields["stack"])
		if !strings.Contains(stack, "TestLoggedOnceAnHour") ||
			fields["service"] != "shop/web" || fields["where"] != "service" {
			t.Errorf("logged %v", fields)
		}
		if text := fmt.Sprint(fields["panic"]); len(text) > 600 || strings.Contains(text, "\x1b") {
			t.Errorf("logged text of %d bytes: %q", len(text), text)
		}
		if s.Count(Service) != 300 || s.Count(Stream) != 0 {
			t.Errorf("the counts are %d and %d", s.Count(Service), s.Count(Stream))
		}
	})
}

// TestManyStacks checks that the memory for stacks is bounded.
func TestManyStacks(t *testing.T) {
	s := New(zap.NewNop())
	var deep func(n int)
	deep = func(n int) {
		if n == 0 {
			panic("deep")
		}
		deep(n - 1)
	}
	for i := range 60 {
		s.Do(web, func() { deep(i) }, func() {})
	}
	if n := len(s.logged); n < 40 || n > maxStacks {
		t.Errorf("%d stacks", n)
	}
	for i := range uint64(maxStacks) {
		s.logged[i] = time.Now()
	}
	s.Do(web, func() { panic("one more") }, func() {})
	if n := len(s.logged); n > maxStacks+60 {
		t.Errorf("%d stacks", n)
	}
}

// TestWithinAPanic checks that successful work does not recover from a panic of its goroutine that
// is already in progress.
func TestWithinAPanic(t *testing.T) {
	s := New(zap.NewNop())
	defer func() {
		if reason := recover(); reason != "outer" {
			t.Errorf("recovered %v", reason)
		}
		if len(s.Failures()) != 0 {
			t.Error("the work failed")
		}
	}()
	defer s.Do(web, func() {}, func() {})
	panic("outer")
}

// TestNil checks that a nil Supervisor runs work and does not recover.
func TestNil(t *testing.T) {
	var s *Supervisor
	ran := false
	s.Do(web, func() { ran = true }, nil)
	defer func() {
		if reason := recover(); reason != "boom" || !ran || s.Failures() != nil {
			t.Errorf("recovered %v, ran %v", reason, ran)
		}
	}()
	s.Do(web, func() { panic("boom") }, nil)
}
