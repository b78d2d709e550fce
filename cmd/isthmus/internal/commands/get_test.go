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
)

// TestGetBatches: messages that come right after each other are shown as one state, the first ones too. Nothing is shown
// of a message before these that a proxy drops.
func TestGetBatches(t *testing.T) {
	for _, once := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := session[pb.Update]{once: once, Target: Target{Timeout: time.Minute}, of: "web:80", state: &getState{}}
			var out bytes.Buffer
			messages, ended := make(chan *pb.Update), make(chan error, 1)
			done := make(chan error)
			go func() {
				done <- f.display(t.Context(), cli.Process{Stdout: &out, Stderr: io.Discard}, &screen{w: &out, asJSON: true}, messages, ended)
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
