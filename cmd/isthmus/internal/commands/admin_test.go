package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/cmd/isthmus/internal/cli/clitest"
	"isthmus/cmd/isthmus/internal/reach"
	"isthmus/internal/adminapi"
)

// TestAdminLate: a gateway that does not answer, or not to the end.
func TestAdminLate(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, page := range map[string]http.HandlerFunc{"late": hang, "slow": func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		hang(w, r)
	}} {
		admin := startAdmin(t, map[string]http.HandlerFunc{"/debug/clusters": page})
		code, out, err := call("clusters", "--timeout", "50ms", "--admin", admin)
		if code != 1 || out != "" || err != "isthmus clusters: "+admin+" has not answered within 50ms (--timeout)\n" {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", name, code, out, err)
		}
	}
}

// TestAdminWaits: who waits for longer than a second sees what for, and may give up.
func TestAdminWaits(t *testing.T) {
	admin := startAdmin(t, map[string]http.HandlerFunc{"/debug/services": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }})
	errs, signals, code := clitest.NewOutput(), make(chan os.Signal, 1), make(chan int, 1)
	go func() {
		code <- newProgram().Run(context.Background(), cli.Process{Args: []string{"services", "--admin", admin, "--timeout", "1m"}, Stdout: clitest.NewOutput(), Stderr: errs, Signals: signals})
	}()
	errs.Await(t, "isthmus services: waiting for /debug/services of "+admin+", for 1m0s at most\n")
	signals <- syscall.SIGINT
	if c := <-code; c != 1 {
		t.Errorf("exit code %d", c)
	}
	errs.Await(t, "isthmus services: interrupted\n")
}

// TestStreamWaits: likewise for the first message of a stream.
func TestStreamWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := session[pb.Update]{Target: Target{Timeout: 10 * time.Second}, state: &getState{}, from: reach.Replica{Address: "a:1"}, limit: time.After(10 * time.Second)}
		var errs bytes.Buffer
		began, messages := time.Now(), make(chan *pb.Update)
		err := s.display(t.Context(), cli.Process{Name: "isthmus get", Stderr: &errs}, nil, messages, nil)
		if took := time.Since(began); err == nil || took != 10*time.Second || !strings.HasPrefix(err.Error(), "a:1 has sent nothing within 10s (--timeout)\n  Either nothing answers at a:1") {
			t.Errorf("%v after %v", err, took)
		}
		if errs.String() != "isthmus get: waiting for the first message of a:1, for 10s at most\n" {
			t.Errorf("%q", errs.String())
		}
		var out bytes.Buffer
		messages2, ended := make(chan *pb.Update), make(chan error, 1)
		errs.Reset()
		done := make(chan error)
		go func() {
			done <- s.display(t.Context(), cli.Process{Name: "isthmus get", Stderr: &errs}, &screen{w: &out}, messages2, ended)
		}()
		messages2 <- none(true)
		time.Sleep(time.Hour) // no limit once there is a state
		ended <- errors.New("over")
		close(messages2)
		if err := <-done; !strings.Contains(err.Error(), "over") || errs.Len() > 0 {
			t.Errorf("%v, %q", err, errs.String())
		}
	})
}

// TestDocumentedFields: the help of a verb names the type of its JSON, whose documentation explains each field.
func TestDocumentedFields(t *testing.T) {
	for help, output := range map[string]any{
		exportsEnding: adminapi.ExportsOutput{}, clustersEnding: adminapi.ClustersOutput{}, servicesEnding: adminapi.ServicesOutput{}, explainEnding: adminapi.ExplainOutput{}, checkEnding: adminapi.CheckOutput{},
		versionEnding: adminapi.VersionOutput{}, getEnding: adminapi.GetOutput{}, profileEnding: adminapi.ProfileOutput{},
	} {
		if name := reflect.TypeOf(output).Name(); !regexp.MustCompile(`go doc\sisthmus/internal/adminapi\.` + name + `\b`).MatchString(help) {
			t.Errorf("no type %s in:\n%s", name, help)
		}
	}
}

// TestJSONLine: characters that are escaped are the same to programs.
func TestJSONLine(t *testing.T) {
	texts := []string{"a b", "\x1b\u009b\u202e\u2028\U000e0001\u00a0\u007f", "ünï"}
	line, err := JSONLine(texts)
	if err != nil || string(line) != `["a b","\u001b\u009b\u202e\u2028\udb40\udc01\u00a0\u007f","ünï"]`+"\n" {
		t.Errorf("%s, %v", line, err)
	}
	var back []string
	if err := json.Unmarshal(line, &back); err != nil || !reflect.DeepEqual(back, texts) {
		t.Errorf("%q, %v", back, err)
	}
}
