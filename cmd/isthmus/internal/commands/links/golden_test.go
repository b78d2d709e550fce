package links

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/datadriven"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"isthmus/cmd/isthmus/internal/cli"
)

var update = flag.Bool("update", false, "write the output of commands in testdata/commands/* as they print it now")

func TestMain(m *testing.M) {
	flag.Parse()
	if *update {
		_ = flag.Set("rewrite", "true") // updates the scripts of TestCommands
	}
	goleak.VerifyTestMain(m)
}

// TestCommands runs the commands of the scripts testdata/commands/* against the API servers of two
// clusters, and compares everything that the commands print. The command
// "go test -run TestCommands -update" updates the scripts. The directives are as follows:
//
//	new                                 starts again: both clusters without links, and a replica without pages
//	object cluster=west                 stores the object of the input, in YAML
//	deny cluster=east                   removes permissions of the user, one per line, such as "list secrets"
//	page path=/debug/impact             sets what the replica serves at the path
//	run answer=yes                      runs each line of the input. If there is an answer, the command runs in a
//	                                    terminal where a user gives this answer
//
// ADMIN, WEST and EAST are the addresses of the replica and of the API servers.
func TestCommands(t *testing.T) {
	datadriven.Walk(t, "testdata/commands", func(t *testing.T, file string) {
		t.Setenv("LC_ALL", "C.UTF-8")
		w := newGoldenWorld(t)
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			clusters := map[string]*apiServer{"west": w.west, "east": w.east}
			var cluster, key string
			d.MaybeScanArgs(t, "cluster", &cluster)
			switch d.Cmd {
			case "new":
				w = newGoldenWorld(t)
			case "object":
				storeYAML(t, clusters[cluster], w.replacer(true).Replace(d.Input))
			case "deny":
				for line := range strings.Lines(d.Input) {
					clusters[cluster].deny(strings.TrimSpace(line))
				}
			case "page":
				d.ScanArgs(t, "path", &key)
				w.pages[key] = d.Input
			case "run":
				d.MaybeScanArgs(t, "answer", &key)
				var printed strings.Builder
				for line := range strings.Lines(d.Input) {
					synctest.Test(t, func(t *testing.T) { w.run(t, &printed, strings.TrimSpace(line), key) })
				}
				return printed.String()
			default:
				t.Fatalf("%s: unknown directive %s", d.Pos, d.Cmd)
			}
			return ""
		})
	})
}

// goldenWorld contains the servers that commands use.
type goldenWorld struct {
	west, east *apiServer
	kubeconfig string
	ca         string            // certificate authority of both API servers, as in a kubeconfig
	admin      string            // address of the replica
	pages      map[string]string // by path
}

func newGoldenWorld(t *testing.T) *goldenWorld {
	w := &goldenWorld{pages: make(map[string]string)}
	west, east, kubeconfig, config := startClusters(t)
	w.west = west
	w.east = east
	w.kubeconfig = kubeconfig
	text, err := yaml.Marshal(config.Clusters["east"].CertificateAuthorityData)
	if err != nil {
		t.Fatal(err)
	}
	w.ca = strings.TrimSpace(string(text))
	w.admin = serving(t, func(to http.ResponseWriter, r *http.Request) {
		page, found := w.pages[r.URL.Path]
		if !found {
			to.WriteHeader(http.StatusNotFound)
		}
		io.WriteString(to, page)
	})
	return w
}

// replacer replaces the addresses of the servers with their names or, if back is set, the reverse.
func (w *goldenWorld) replacer(back bool) *strings.Replacer {
	pairs := []string{w.admin, "ADMIN", w.west.url, "WEST", w.east.url, "EAST", w.ca, "CA"}
	if back {
		for i := 0; i < len(pairs); i += 2 {
			pairs[i], pairs[i+1] = pairs[i+1], pairs[i]
		}
	}
	return strings.NewReplacer(pairs...)
}

// run runs one command and appends its output to printed.
func (w *goldenWorld) run(t *testing.T, printed *strings.Builder, line, answer string) {
	var stdout, stderr buffer
	args := strings.Fields(w.replacer(true).Replace(line))
	program := &cli.Program{Name: "isthmus", Groups: []cli.Group{{Title: "Verbs", Commands: All()}}}
	code := program.Run(t.Context(), cli.Process{
		Args:        append(args, "--kubeconfig", w.kubeconfig),
		Stdin:       strings.NewReader(answer + "\n"),
		Stdout:      &stdout,
		Stderr:      &stderr,
		Signals:     make(chan os.Signal),
		Interactive: answer != "",
	})
	text := stdout.String()
	for line := range strings.Lines(stderr.String()) {
		text += "stderr: " + line
	}
	if !strings.HasSuffix(text, "\n") && text != "" {
		text += "\n" // the line break after a question
	}
	fmt.Fprintf(printed, "$ isthmus %s\n%s", line, w.replacer(false).Replace(text))
	if code != 0 {
		fmt.Fprintf(printed, "exit code %d\n", code)
	}
}

// storeYAML stores an object in a cluster, in the form of "kubectl get -o yaml".
func storeYAML(t *testing.T, api *apiServer, text string) {
	o := new(unstructured.Unstructured)
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	resource := strings.ToLower(o.GetKind()) + "s"
	at := path.Join("/api/v1/namespaces", o.GetNamespace(), resource, o.GetName())
	if group, _, found := strings.Cut(o.GetAPIVersion(), "/"); found {
		at = filepath.Join("/apis", group, "v1", resource, o.GetName())
	}
	api.store(at, o)
}
