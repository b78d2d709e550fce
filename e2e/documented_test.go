package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

// ours reports whether a metric family is defined by Isthmus. Other families describe Go, the
// process or the scrape itself.
func ours(name string) bool {
	return !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") &&
		!strings.HasPrefix(name, "promhttp_")
}

// row matches a table row in docs/metrics.md: names, type, labels and meaning.
var row = regexp.MustCompile(
	"(?m)^\\| `([a-z0-9_]+(?:`, `[a-z0-9_]+)*)` \\| ([a-z]+) \\| ([a-z_, ]*) ?\\| .+ \\|$",
)

// documented checks that docs/metrics.md and /metrics contain the same metric families with the
// same types and labels. Each family must have series, and each histogram must have observations.
func (o *observed) documented(t *testing.T) {
	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := row.FindAllStringSubmatch(string(text), -1)
	if n := strings.Count(string(text), "\n| `"); n != len(rows) {
		t.Fatalf("%d of %d rows in docs/metrics.md can be parsed", len(rows), n)
	}
	await(t, "/metrics is as documented", func() error {
		return undocumented(rows, o.families(t, o.gateways[0]))
	})
	lint(t, o.families(t, o.gateways[0]))
	await(t, "histograms have observations", func() error {
		return unobserved(o.families(t, o.gateways[0]), o.families(t, o.gateways[1]))
	})
}

// undocumented returns an error that lists the families whose type or labels differ from
// docs/metrics.md, and the families that are missing there.
func undocumented(rows [][]string, families map[string]*dto.MetricFamily) error {
	lines := make(map[string]string)
	for name, f := range families {
		if ours(name) {
			lines[name] = fmt.Sprint(strings.ToLower(f.GetType().String()), " ", labelsOf(f))
		}
	}
	var errs []error
	for _, r := range rows {
		labels := []string{}
		if list := strings.TrimSpace(r[3]); list != "" {
			labels = strings.Split(list, ", ")
		}
		slices.Sort(labels)
		for _, name := range strings.Split(r[1], "`, `") {
			if want := fmt.Sprint(r[2], " ", labels); lines[name] != want {
				errs = append(errs, fmt.Errorf("%s is documented as %s, but is %q", name, want, lines[name]))
			}
			delete(lines, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		errs = append(errs, fmt.Errorf("%s, %s, is not documented", name, lines[name]))
	}
	return errors.Join(errs...)
}

// unobserved returns an error that lists the histograms without observations at both replicas. The
// first replica writes EndpointSlices, and the second reads core Endpoints.
func unobserved(a, b map[string]*dto.MetricFamily) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if a[name].GetType() == dto.MetricType_HISTOGRAM && ours(name) && !observations(a[name]) &&
			!observations(b[name]) {
			errs = append(errs, fmt.Errorf("%s has no observations", name))
		}
	}
	return errors.Join(errs...)
}

func observations(f *dto.MetricFamily) bool {
	return slices.ContainsFunc(f.GetMetric(), func(m *dto.Metric) bool { return m.GetHistogram().GetSampleCount() > 0 })
}

// families returns the metric families of a replica.
func (o *observed) families(t *testing.T, g *harness.Replica) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(o.metrics(t, g)))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

func labelsOf(f *dto.MetricFamily) []string {
	names := map[string]bool{}
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			names[l.GetName()] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// unclean contains the names that promlint rejects and that Isthmus shares with Linkerd's
// destination controller: counters without the suffix _total.
var unclean = []string{
	"endpoint_profile_updates_queue_overflow", "endpoint_updates_queue_overflow", "endpoints_updates",
	"profile_updates", "profile_updates_queue_overflow", "workload_updates",
}

// lint checks that promlint rejects exactly the names in unclean.
func lint(t *testing.T, families map[string]*dto.MetricFamily) {
	problems, err := promlint.NewWithMetricFamilies(slices.Collect(maps.Values(families))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, p := range problems {
		if !slices.Contains(unclean, p.Metric) && ours(p.Metric) {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
		found = append(found, p.Metric)
	}
	for _, name := range unclean {
		if !slices.Contains(found, name) {
			t.Errorf("promlint accepts %s", name)
		}
	}
}

// oldestKubectl returns the path of the oldest supported kubectl. The file is called kubectl.
func oldestKubectl(t *testing.T) (path string) {
	t.Helper()
	built, err := harness.Kubectl.Path(t.Context())
	must(t, err)
	path = filepath.Join(t.TempDir(), "kubectl")
	must(t, os.Symlink(built, path))
	return path
}

// TestOldestKubectl checks that the oldest kubectl is built from the version in docs/install.md.
func TestOldestKubectl(t *testing.T) {
	t.Parallel()
	version, err := os.ReadFile("tools/kubectl/version.txt")
	must(t, err)
	page, err := os.ReadFile("../docs/install.md")
	must(t, err)
	built := regexp.MustCompile(`^v0\.(\d+)\.\d+\n$`).FindStringSubmatch(string(version))
	named := regexp.MustCompile(`kubectl 1\.(\d+) or later`).FindStringSubmatch(string(page))
	if built == nil || named == nil || built[1] != named[1] {
		t.Errorf("the tests build %q, but the page names %q", built, named)
	}
}

// shownCommand matches a kubectl command in a code block or in a sentence.
var shownCommand = regexp.MustCompile("(?m)`(kubectl [^`]+)`|^ *(kubectl .*)$")

// documentedCommands returns the distinct kubectl commands in docs without comments. It skips
// incomplete commands in sentences, such as "kubectl apply -k".
func documentedCommands(t *testing.T) (commands []string) {
	t.Helper()
	pages, err := filepath.Glob("../docs/*.md")
	must(t, err)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		must(t, err)
		for _, found := range shownCommand.FindAllStringSubmatch(string(text), -1) {
			command, _, _ := strings.Cut(found[1]+found[2], " #")
			command = strings.TrimSpace(command)
			words := strings.Fields(command)
			begun := len(words) < 4 || slices.Contains([]string{"-", "-f", "-k"}, words[len(words)-1])
			if !begun && !slices.Contains(commands, command) {
				commands = append(commands, command)
			}
		}
	}
	return commands
}

// elsewhere matches commands that need more than an API server and this directory.
// TestInstallAsDocumented and TestExportsAsDocumented run most of them. No test runs port-forward.
var elsewhere = regexp.MustCompile(`port-forward|rollout|apply -k \.$`)

// TestDocumentedCommands runs the kubectl commands from docs against an API server, with the oldest
// kubectl that docs/install.md supports.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	kubectl := oldestKubectl(t)
	server := startClusters(t, []string{"namespace", "serviceaccount"}, "west")[0]
	c := client(t, server)
	must(t, c.ServeMCS(t.Context(), kube.MCSVersions...))
	servePrometheusOperator(t, c)
	for _, name := range []string{"linkerd", "linkerd-multicluster", "shop"} {
		must(t, c.Apply(t.Context(), kube.Namespace(name)))
	}
	must(t, c.Apply(t.Context(), kube.Link("east", []byte("{}"))))
	must(t, c.Apply(t.Context(), kube.ServiceAccount("shop", "web"), kube.Pod("shop", "web-0", "web")))
	must(t, c.Apply(t.Context(), kube.Service("shop", "web")))
	must(t, c.ApplyYAML(t.Context(),
		"{apiVersion: coordination.k8s.io/v1, kind: Lease, "+
			"metadata: {name: isthmus-exports-write, namespace: linkerd}}"))

	text, err := os.ReadFile("../docs/exports.md")
	must(t, err)
	dir := documentedFolder(t, shownInDocs.FindStringSubmatch(string(text))[1])
	must(t, os.Symlink(manifest(t, "."), filepath.Join(dir, "manifests")))
	placeholders := strings.NewReplacer("NAMESPACE", "shop", "NAME", "web-0")
	ran := 0
	for _, command := range documentedCommands(t) {
		if elsewhere.MatchString(command) {
			continue
		}
		ran++
		cmd := exec.CommandContext(t.Context(), "sh", "-euc", placeholders.Replace(command))
		cmd.Dir = dir
		path := "PATH=" + filepath.Dir(kubectl) + ":" + os.Getenv("PATH")
		cmd.Env = append(userEnvironment(t), path, "KUBECONFIG="+server.Kubeconfig())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
	if ran < 14 {
		t.Errorf("only %d commands found", ran)
	}
}

var (
	// shownInDocs matches a kustomization on a page of docs.
	shownInDocs = regexp.MustCompile("(?s)\n```yaml\n(# kustomization.yaml\n.*?)\n```\n")
	// shownInHead matches a line of the kustomization in the comment at the top of a
	// kustomization.yaml.
	shownInHead = regexp.MustCompile(`(?m)^#   (.*)\n`)
)

// documentedKustomizations returns the kustomizations in docs, the README and the comments of
// manifests, by their location.
func documentedKustomizations(t *testing.T) map[string]string {
	t.Helper()
	shown := make(map[string]string)
	pages, err := filepath.Glob("../docs/*.md")
	must(t, err)
	for _, page := range append(pages, "../README.md") {
		text, err := os.ReadFile(page)
		must(t, err)
		for i, found := range shownInDocs.FindAllStringSubmatch(string(text), -1) {
			shown[filepath.Base(page)+" "+string(rune('1'+i))] = found[1]
		}
	}
	err = filepath.WalkDir(manifest(t, "."), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "kustomization.yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		head, _, _ := strings.Cut(string(text), "\napiVersion:")
		var lines []string
		for _, line := range shownInHead.FindAllStringSubmatch(head+"\n", -1) {
			lines = append(lines, line[1])
		}
		if len(lines) > 0 {
			shown[strings.TrimPrefix(path, manifest(t, ".")+"/")] = strings.Join(lines, "\n")
		}
		return nil
	})
	must(t, err)
	return shown
}

// documentedFolder writes a kustomization to a directory in which isthmus links to this repository,
// as docs/install.md says, and linkerd.yaml is Linkerd's manifest. It adds the base that the
// comments of components omit.
func documentedFolder(t *testing.T, text string) string {
	t.Helper()
	var k map[string]any
	must(t, yaml.Unmarshal([]byte(text), &k))
	if k["resources"] == nil {
		k["resources"] = []string{"isthmus/manifests/install"}
		if strings.Contains(text, "exports/names") {
			k["components"] = []string{"isthmus/manifests/install/exports"}
		}
	}
	complete, err := yaml.Marshal(k)
	must(t, err)
	dir := t.TempDir()
	root, err := filepath.Abs("..")
	must(t, err)
	must(t, os.Symlink(root, filepath.Join(dir, "isthmus")))
	linkerd, err := os.ReadFile("testdata/linkerd/destination.yaml")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "linkerd.yaml"), linkerd, 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), complete, 0o644))
	return dir
}

// TestDocumentedKustomizations builds every documented kustomization and every directory of
// manifests with the oldest kubectl that docs/install.md supports.
func TestDocumentedKustomizations(t *testing.T) {
	t.Parallel()
	kubectl := oldestKubectl(t)
	shown := documentedKustomizations(t)
	for _, place := range []string{
		"exports.md 1", "exports.md 2", "install.md 1", "install/exports/kustomization.yaml",
	} {
		if shown[place] == "" {
			t.Errorf("no kustomization found in %s", place)
		}
	}
	build := func(t *testing.T, dir string) string {
		cmd := exec.CommandContext(t.Context(), kubectl, "kustomize", dir)
		var complaint strings.Builder
		cmd.Stderr = &complaint
		out, err := cmd.Output()
		if err != nil || len(out) == 0 {
			t.Fatalf("%v: prints %q and %s", err, out, complaint.String())
		}
		return string(out)
	}
	for place, text := range shown {
		t.Run(place, func(t *testing.T) {
			out := build(t, documentedFolder(t, text))
			if !strings.Contains(text, "--exports=on") {
				return
			}
			objects, err := kube.Parse(out)
			must(t, err)
			d := find[appsv1.Deployment](t, objects, "Deployment", "isthmus")
			if args := d.Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--exports=on") {
				t.Errorf("the patch has no effect: %q", args)
			}
		})
	}
	for _, name := range []string{
		"dashboards", "install", "install/exports/guard", "install/exports/linkerd", "link", "monitoring",
	} {
		t.Run(name, func(t *testing.T) { build(t, manifest(t, name)) })
	}
	for _, component := range []string{"exports", "mcs-crds", "openshift", "podmonitor", "policy"} {
		t.Run("component "+component, func(t *testing.T) {
			build(t, documentedFolder(t, "components: [isthmus/manifests/install/"+component+"]"))
		})
	}
}

// TestExportsAsDocumented runs the commands in docs/exports.md that apply manifests, in a directory
// with the first kustomization of that page.
func TestExportsAsDocumented(t *testing.T) {
	t.Parallel()
	server := startClusters(t, []string{"namespace", "serviceaccount"}, "west")[0]
	must(t, client(t, server).Apply(t.Context(), kube.Namespace("linkerd"), kube.Namespace("linkerd-multicluster")))
	text, err := os.ReadFile("../docs/exports.md")
	must(t, err)
	dir := documentedFolder(t, shownInDocs.FindStringSubmatch(string(text))[1])
	commands := regexp.MustCompile(`(?m)^kubectl apply -k .*$`).FindAllString(string(text), -1)
	if len(commands) < 2 {
		t.Fatalf("too few commands found: %q", commands)
	}
	for _, command := range commands {
		mustShell(t, server, "cd "+dir+" && "+command)
	}
	awaitPermissions(t, server, "linkerd:isthmus",
		[]permission{{"create services -A", "yes"}, {"list namespaces -A", "yes"}})
}
