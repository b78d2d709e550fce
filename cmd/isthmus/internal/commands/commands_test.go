package commands

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/cmd/isthmus/internal/cmdtest"
	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *update {
		_ = flag.Set("rewrite", "true") // updates the scripts of TestCommands
	}
	time.Local = time.UTC // tables contain local times
	goleak.VerifyTestMain(m)
}

// newProgram returns isthmus with the commands of this package.
func newProgram() *cli.Program {
	return &cli.Program{Name: "isthmus", Build: testBuild, Groups: []cli.Group{{Title: "Verbs", Commands: All()}}}
}

// call runs the program and returns its exit code and output.
func call(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = newProgram().Run(context.Background(),
		cli.Process{Args: args, Stdout: &out, Stderr: &err, Signals: make(chan os.Signal)})
	return code, out.String(), err.String()
}

// TestCommands runs the commands of the scripts testdata/commands/* and compares their output. The
// command "go test -run TestCommands -update" updates the scripts. The directives are as follows:
//
//	page path=/debug/clusters status=200    sets what the admin server serves at the path, with noon as the
//	                                        date: the input
//	headers                                 replaces the headers of the admin server's responses, one per line;
//	                                        by default, the headers of a replica of this program's version
//	stream end=NotFound                     sets the next stream of the gRPC server and its status. Each line is
//	                                        a message: "add IP:PORT…", "remove IP:PORT…", "none" (the service has
//	                                        no endpoints), "gone", or an Update or a DestinationProfile as text
//	run                                     runs each line of the input. ADMIN and ADDR are the addresses of the
//	                                        servers
//
// The output must not contain characters that a terminal interprets. The text after "asked:" is the
// query of the page request, or the request of the stream.
func TestCommands(t *testing.T) {
	datadriven.Walk(t, "testdata/commands", func(t *testing.T, path string) {
		t.Setenv("HOME", t.TempDir())
		t.Setenv("KUBECONFIG", t.TempDir()+"/none")
		t.Setenv("LC_ALL", "C.UTF-8")
		w := &commandWorld{pages: make(map[string]*page)}
		w.admin = startAdmin(t, map[string]http.HandlerFunc{"/": w.serve})
		w.replica, w.addr = startFake(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "page":
				p := &page{text: d.Input, status: http.StatusOK}
				var path string
				d.ScanArgs(t, "path", &path)
				d.MaybeScanArgs(t, "status", &p.status)
				w.pages[path] = p
			case "headers":
				w.headers = make(map[string]string)
				for line := range strings.Lines(d.Input) {
					name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
					w.headers[name] = unescape(t, value)
				}
			case "env":
				for _, a := range d.CmdArgs {
					t.Setenv(a.Key, a.Vals[0])
				}
			case "stream":
				w.replica.script(t, d)
			case "run":
				var out strings.Builder
				for line := range strings.Lines(d.Input) {
					w.run(&out, strings.TrimSpace(line))
				}
				if strings.ContainsFunc(strings.ReplaceAll(out.String(), "\n", ""), text.Unprintable) {
					t.Errorf("%s: the output has characters that a terminal interprets: %q", d.Pos, out.String())
				}
				return out.String()
			default:
				t.Fatalf("%s: unknown directive %s", d.Pos, d.Cmd)
			}
			return ""
		})
	})
}

// commandWorld holds the servers that commands query.
type commandWorld struct {
	pages       map[string]*page
	headers     map[string]string // nil for the headers of a replica of this program's version
	asked       string            // query of the last page request
	replica     *fakeReplica
	admin, addr string
}

type page struct {
	text   string
	status int
}

func (w *commandWorld) serve(to http.ResponseWriter, r *http.Request) {
	if w.headers != nil {
		to.Header().Del(adminapi.FormatHeader)
	}
	for name, value := range w.headers {
		to.Header().Set(name, value)
	}
	p := w.pages[r.URL.Path]
	if p == nil {
		http.NotFound(to, r)
		return
	}
	w.asked += r.URL.RawQuery
	to.WriteHeader(p.status)
	io.WriteString(to, strings.ReplaceAll(p.text, `\x1b`, "\x1b"))
}

// unescape replaces Go escape sequences in a text.
func unescape(t *testing.T, text string) string {
	t.Helper()
	value, err := strconv.Unquote(`"` + text + `"`)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}

// changing matches the parts of the output that differ from run to run.
var changing = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d{3}|"time":"[^"]*"`)

func (w *commandWorld) run(out *strings.Builder, line string) {
	var stdout, stderr bytes.Buffer
	args := strings.Fields(strings.NewReplacer("ADMIN", w.admin, "ADDR", w.addr).Replace(line))
	program := newProgram()
	program.Groups[0].Commands = append(program.Groups[0].Commands,
		Version(testBuild, func(w io.Writer) { io.WriteString(w, "DETAILS\n") }))
	w.asked = ""
	code := program.Run(context.Background(),
		cli.Process{Args: args, Stdout: &stdout, Stderr: &stderr, Signals: make(chan os.Signal)})
	text := stdout.String()
	for line := range strings.Lines(stderr.String()) {
		text += "stderr: " + line
	}
	text = strings.NewReplacer(w.admin, "ADMIN", w.addr, "ADDR").Replace(text)
	out.WriteString(changing.ReplaceAllString(text, "NOW"))
	if code != 0 {
		fmt.Fprintf(out, "exit code %d\n", code)
	}
	select {
	case q := <-w.replica.asked:
		w.asked = q.GetPath() + " " + q.GetContextToken()
	default:
	}
	if w.asked != "" {
		fmt.Fprintf(out, "asked: %s\n", w.asked)
	}
}

// script makes the replica send the messages of a directive.
func (f *fakeReplica) script(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(d.Input), "\n")
	f.updates, f.profiles, f.end = make(chan *pb.Update, len(lines)), make(chan *pb.DestinationProfile, len(lines)), nil
	defer close(f.updates)
	defer close(f.profiles)
	var end string
	if d.MaybeScanArgs(t, "end", &end); end != "" {
		var code codes.Code
		if err := code.UnmarshalJSON([]byte(`"` + end + `"`)); err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
		f.end = status.Error(code, "why it ends\x1b")
	}
	for _, line := range lines {
		u, p := new(pb.Update), new(pb.DestinationProfile)
		switch words := append(strings.Fields(line), ""); {
		case words[0] == "":
		case words[0] == "add":
			f.updates <- add(words[1 : len(words)-1]...)
		case words[0] == "remove":
			f.updates <- remove(words[1 : len(words)-1]...)
		case words[0] == "none", words[0] == "gone":
			f.updates <- none(words[0] == "none")
		case prototext.Unmarshal([]byte(line), u) == nil:
			f.updates <- u
		case prototext.Unmarshal([]byte(line), p) == nil:
			f.profiles <- p
		default:
			t.Fatalf("%s: neither an Update nor a DestinationProfile: %s", d.Pos, line)
		}
	}
}

// TestAdminLate checks the errors for a replica that does not respond or does not finish its
// response.
func TestAdminLate(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, page := range map[string]http.HandlerFunc{"late": hang,
		"slow": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			hang(w, r)
		}} {
		admin := startAdmin(t, map[string]http.HandlerFunc{"/debug/clusters": page})
		code, out, err := call("clusters", "--timeout", "50ms", "--admin", admin)
		if code != 1 || out != "" || err != "isthmus clusters: "+admin+" did not respond within 50ms (--timeout)\n" {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", name, code, out, err)
		}
	}
}

// TestAdminWaits checks that a command prints the reason for waiting after one second, and that a
// user may interrupt it.
func TestAdminWaits(t *testing.T) {
	admin := startAdmin(t,
		map[string]http.HandlerFunc{"/debug/services": func(_ http.ResponseWriter,
			r *http.Request) {
			<-r.Context().Done()
		}})
	errs, signals, code := cmdtest.NewOutput(), make(chan os.Signal, 1), make(chan int, 1)
	go func() {
		code <- newProgram().Run(context.Background(),
			cli.Process{Args: []string{"services", "--admin", admin, "--timeout", "1m"}, Stdout: cmdtest.NewOutput(),
				Stderr: errs, Signals: signals})
	}()
	errs.Await(t, "isthmus services: waiting for /debug/services of "+admin+", for up to 1m0s\n")
	signals <- syscall.SIGINT
	if c := <-code; c != 1 {
		t.Errorf("exit code %d", c)
	}
	errs.Await(t, "isthmus services: interrupted\n")
}

// TestDocumentedFields checks that the help of a command names the type of its JSON output. The
// documentation of the type must explain each field.
func TestDocumentedFields(t *testing.T) {
	for help, output := range map[string]any{
		exportsEnding: adminapi.ExportsOutput{}, clustersEnding: adminapi.ClustersOutput{},
		servicesEnding: adminapi.ServicesOutput{}, explainEnding: adminapi.ExplainOutput{},
		checkEnding:   adminapi.CheckOutput{},
		versionEnding: adminapi.VersionOutput{}, getEnding: adminapi.GetOutput{},
		profileEnding: adminapi.ProfileOutput{},
	} {
		if name := reflect.TypeOf(output).Name(); !regexp.MustCompile(`go doc\sisthmus/internal/adminapi\.` + name +
			`\b`).MatchString(help) {
			t.Errorf("the type %s is missing in:\n%s", name, help)
		}
	}
}
