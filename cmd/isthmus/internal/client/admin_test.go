package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
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
	"isthmus/internal/adminapi"
	"isthmus/internal/legible"
)

// TestAdminFails: what is wrong with the address, or with what answers there.
func TestAdminFails(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for _, c := range []struct {
		name   string
		page   http.HandlerFunc
		code   int
		stderr string
	}{
		{"not found", http.NotFound, 1, `isthmus clusters: ADMIN answers "?404 Not Found"? for /debug/clusters: is it the admin server of an Isthmus gateway\? \(--admin\)`},
		{"redirected", http.RedirectHandler("http://127.0.0.1:1", http.StatusFound).ServeHTTP, 1, "ADMIN answers 302 Found for /debug/clusters"},
		{"busy", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "try \x1b again", http.StatusServiceUnavailable)
		}, 1, `ADMIN is busy: "try \\x1b again"`},
		{"too many", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "another service is being explained: try again", http.StatusTooManyRequests)
		}, 1, `ADMIN is busy: another service is being explained: try again`},
		{"wrong question", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no \x1b service", http.StatusBadRequest)
		}, 2, `^isthmus clusters: "no \\x1b service" \(isthmus clusters --help explains\)`},
		{"no JSON", text("\x1b"), 1, `/debug/clusters of ADMIN can't be read: invalid character '\\x1b'`},
		{"half", text(`{"local":`), 1, `/debug/clusters of ADMIN can't be read: unexpected EOF`},
		{"other JSON", text("[]"), 1, `/debug/clusters of ADMIN can't be read: json: cannot unmarshal array`},
		{"late", hang, 1, `isthmus clusters: ADMIN has not answered within 50ms \(--timeout\)`},
		{"slow", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			hang(w, r)
		}, 1, `ADMIN has not answered within 50ms`},
	} {
		t.Run(c.name, func(t *testing.T) {
			admin := startAdmin(t, map[string]http.HandlerFunc{"/debug/clusters": c.page})
			limit := "1m"
			if strings.Contains(c.stderr, "50ms") {
				limit = "50ms"
			}
			code, out, err := call("clusters", "--timeout", limit, "--admin", admin)
			if want := strings.Replace(c.stderr, "ADMIN", regexp.QuoteMeta(admin), 1); code != c.code || out != "" || !regexp.MustCompile(want).MatchString(err) {
				t.Errorf("exit code %d, stdout %q, stderr %q, want %s", code, out, err, want)
			}
		})
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if code, _, err := call("services", "--admin", l.Addr().String()); code != 1 || !strings.Contains(err, "connection refused\n  Is the gateway running? --admin is the address of its admin server") {
		t.Errorf("exit code %d, %q", code, err)
	}
	for args, want := range map[string]string{
		"clusters --admin x":     `isthmus clusters: --admin is "x": give HOST:PORT`,
		"services --admin a:b/c": `isthmus services: --admin is "a:b/c": give HOST:PORT`,
		"clusters x":             `isthmus clusters: unexpected argument "x": clusters takes none`,
		"services -o yaml":       `isthmus services: --output is "yaml": give table or json`,
		"clusters --timeout=-1s": `isthmus clusters: --timeout is -1s: give a duration above 0`,
		"services --watch":       `isthmus services: unknown flag: --watch`,
	} {
		if code, out, err := call(strings.Fields(args)...); code != 2 || out != "" || !strings.HasPrefix(err, want) {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", args, code, out, err)
		}
	}
}

// TestAdminWaits: who waits for longer than a second sees what for, and may give up.
func TestAdminWaits(t *testing.T) {
	asked, release := make(chan bool, 1), make(chan bool)
	admin := startAdmin(t, map[string]http.HandlerFunc{"/debug/services": func(w http.ResponseWriter, r *http.Request) {
		asked <- true
		select {
		case <-release:
			text("[]")(w, r)
		case <-r.Context().Done():
		}
	}})
	start := func() (errs *clitest.Output, signals chan os.Signal, code chan int) {
		errs, signals, code = clitest.NewOutput(), make(chan os.Signal, 1), make(chan int, 1)
		go func() {
			code <- newProgram().Run(context.Background(), cli.Process{Args: []string{"services", "--admin", admin, "--timeout", "1m"}, Stdout: clitest.NewOutput(), Stderr: errs, Signals: signals})
		}()
		<-asked
		return errs, signals, code
	}
	errs, _, code := start()
	errs.Await(t, "isthmus services: waiting for /debug/services of "+admin+", for 1m0s at most\n")
	close(release)
	if c := <-code; c != 0 {
		t.Errorf("exit code %d", c)
	}
	release = make(chan bool)
	errs, signals, code := start()
	signals <- syscall.SIGINT
	if c := <-code; c != 1 {
		t.Errorf("exit code %d", c)
	}
	errs.Await(t, "isthmus services: interrupted\n")
}

// TestStreamWaits: likewise for the first message of a stream.
func TestStreamWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := session[pb.Update]{Target: Target{Timeout: 10 * time.Second}, state: &getState{}, from: replica{name: "a:1"}}
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
		clustersEnding: adminapi.ClustersOutput{}, servicesEnding: adminapi.ServicesOutput{}, explainEnding: adminapi.ExplainOutput{}, checkEnding: adminapi.CheckOutput{},
		versionEnding: adminapi.VersionOutput{}, getEnding: adminapi.GetOutput{}, profileEnding: adminapi.ProfileOutput{},
	} {
		if name := reflect.TypeOf(output).Name(); !regexp.MustCompile(`go doc\sisthmus/internal/adminapi\.` + name + `\b`).MatchString(help) {
			t.Errorf("no type %s in:\n%s", name, help)
		}
	}
}

// FuzzPages: whatever a page holds, nothing reaches the terminal that it would obey.
func FuzzPages(f *testing.F) {
	f.Add([]byte(clustersJSON), []byte(servicesJSON))
	escape := strings.NewReplacer("shop", `\u001b]0;\u009b\u202e\n`, "east", "\u009b\U000e0001", "dial", `\u0000`)
	f.Add([]byte(escape.Replace(clustersJSON)), []byte(escape.Replace(servicesJSON)))
	f.Fuzz(func(t *testing.T, clusters, services []byte) {
		s := &servicesState{at: noon, names: []serviceName{{name: "web"}}}
		c := &clustersState{at: noon}
		if json.Unmarshal(clusters, &c.page) != nil || json.Unmarshal(services, &s.services) != nil {
			return
		}
		checkHarmless(t, c)
		checkHarmless(t, s)
	})
}

// checkHarmless checks that what is printed of a content does nothing to a terminal.
func checkHarmless(t *testing.T, c content) {
	for _, asJSON := range []bool{true, false} {
		var b bytes.Buffer
		if err := (&screen{w: &b, asJSON: asJSON}).show(c, noon); err != nil {
			return // a year that JSON can't have
		}
		for _, r := range b.String() {
			if r != '\n' && legible.Unprintable(r) {
				t.Fatalf("%q in %q", r, b.String())
			}
		}
		if asJSON && !json.Valid(b.Bytes()) {
			t.Fatalf("no JSON: %s", b.String())
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
