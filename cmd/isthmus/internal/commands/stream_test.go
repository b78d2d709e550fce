package commands

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/cmd/isthmus/internal/reach"
)

// TestGetBatches checks that messages in quick succession are shown as one state, also at the start
// of a stream. Earlier messages that a proxy drops are not shown.
func TestGetBatches(t *testing.T) {
	for _, once := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := session[pb.Update]{once: once, Target: Target{Timeout: time.Minute}, authority: "web:80",
				state: &getState{}}
			var out bytes.Buffer
			messages, ended := make(chan *pb.Update), make(chan error, 1)
			done := make(chan error)
			go func() {
				done <- f.display(t.Context(), cli.Process{Stdout: &out, Stderr: io.Discard},
					&screen{w: &out, asJSON: true}, messages, ended)
			}()
			messages <- remove("10.0.0.1:80")
			time.Sleep(time.Second)
			messages <- add("10.0.0.1:80")
			time.Sleep(batchWindow - 1)
			messages <- add("10.0.0.2:80")
			if !once {
				time.Sleep(time.Second)
				messages <- add("10.0.0.3:80")
				messages <- remove("10.0.0.1:80", "10.0.0.2:80")
				time.Sleep(time.Second)
				ended <- errors.New("over")
				close(messages)
			}
			err, counts := <-done, []int{}
			for line := range strings.Lines(out.String()) {
				counts = append(counts, strings.Count(line, `"address"`))
			}
			want := []int{2, 1}
			if once {
				want = []int{2}
			}
			if (err == nil) != once || !slices.Equal(counts, want) {
				t.Errorf("once %t: %v; states of %v endpoints, want %v", once, err, counts, want)
			}
		})
	}
}

// TestStreamWaits checks that a command prints that it is waiting for the first message of a
// stream. After --timeout, the command returns an error.
func TestStreamWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := session[pb.Update]{Target: Target{Timeout: 10 * time.Second}, state: &getState{},
			replica: reach.Replica{Address: "a:1"}, limit: time.After(10 * time.Second)}
		var errs bytes.Buffer
		began, messages := time.Now(), make(chan *pb.Update)
		err := s.display(t.Context(), cli.Process{Name: "isthmus get", Stderr: &errs}, nil, messages, nil)
		if took := time.Since(began); err == nil || took != 10*time.Second ||
			!strings.HasPrefix(err.Error(),
				"a:1 sent no message within 10s (--timeout)\n  Possible causes: no server responds at a:1") {
			t.Errorf("%v after %v", err, took)
		}
		if errs.String() != "isthmus get: waiting up to 10s for the first message from a:1\n" {
			t.Errorf("%q", errs.String())
		}
		var out bytes.Buffer
		messages2, ended := make(chan *pb.Update), make(chan error, 1)
		errs.Reset()
		done := make(chan error)
		go func() {
			done <- s.display(t.Context(), cli.Process{Name: "isthmus get", Stderr: &errs}, &screen{w: &out},
				messages2, ended)
		}()
		messages2 <- none(true)
		time.Sleep(time.Hour) // no limit applies after the first state
		ended <- errors.New("over")
		close(messages2)
		if err := <-done; !strings.Contains(err.Error(), "over") || errs.Len() > 0 {
			t.Errorf("%v, %q", err, errs.String())
		}
	})
}
