package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../../.."

var tree = os.DirFS(filepath.Join(root, "manifests"))

const linkerd = "../../testdata/linkerd/destination.yaml"

// TestBuild checks that the output contains the requested image, version and namespace.
func TestBuild(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	for _, c := range []struct {
		args      string
		has, lack []string // lines
	}{
		{
			"",
			[]string{
				"image: isthmus:dev",
				"namespace: linkerd",
				"app.kubernetes.io/version: dev",
				"kind: NetworkPolicy",
			},
			nil,
		},
		{"VERSION=v2", []string{"image: isthmus:v2", "app.kubernetes.io/version: v2"}, []string{"image: isthmus:dev"}},
		{
			"IMAGE=registry.example.com:5000/mesh/isthmus VERSION=v2",
			[]string{"image: registry.example.com:5000/mesh/isthmus:v2"},
			nil,
		},
		{
			"IMAGE=registry.example.com/isthmus:v3",
			[]string{"image: registry.example.com/isthmus:v3", "app.kubernetes.io/version: v3"},
			nil,
		},
		{
			"IMAGE=registry.example.com/isthmus:edge VERSION=v3",
			[]string{"image: registry.example.com/isthmus:edge", "app.kubernetes.io/version: v3"},
			nil,
		},
		{"IMAGE=isthmus@" + digest, []string{"image: isthmus@" + digest}, []string{"app.kubernetes.io/version: dev"}},
		{
			"IMAGE=isthmus@" + digest + " VERSION=v1",
			[]string{"image: isthmus@" + digest, "app.kubernetes.io/version: v1"},
			nil,
		},
		{"IMAGE=isthmus:v4@" + digest, []string{"image: isthmus:v4@" + digest, "app.kubernetes.io/version: v4"}, nil},
		{
			"VERSION=_unlabelled_",
			[]string{"image: isthmus:_unlabelled_"},
			[]string{"app.kubernetes.io/version: _unlabelled_"},
		},
		{"NAMESPACE=mesh VERSION=v1", []string{"namespace: mesh"}, []string{"namespace: linkerd"}},
		{"NAMESPACE=my-mesh VERSION=v1 WITH=exports", []string{
			"name: isthmus-my-mesh", "name: system:serviceaccount:my-mesh:isthmus",
			"name: isthmus-my-mesh-exports", "name: system:serviceaccount:my-mesh:linkerd-destination",
		}, []string{"name: isthmus-exports", "name: system:serviceaccount:linkerd:isthmus", "kind: ConfigMap"}},
		{"NAMESPACE=linkerd VERSION=v1 WITH=exports",
			[]string{"name: system:serviceaccount:linkerd:isthmus", "name: isthmus-exports"},
			[]string{"name: isthmus-linkerd"}},
		{
			"WITH=mcs-crds VERSION=v1",
			[]string{
				"kind: CustomResourceDefinition",
				"kind: Deployment",
				"name: serviceimports.multicluster.x-k8s.io",
			},
			nil,
		},
		{"WITH=podmonitor VERSION=v1", []string{"kind: PodMonitor"}, nil},
		{
			"WITH=podmonitor,policy VERSION=v1 NAMESPACE=mesh",
			[]string{"kind: PodMonitor", "kind: AuthorizationPolicy", "namespace: mesh"},
			[]string{"namespace: linkerd"},
		},
		{"FOLDER=linkerd WITH=policy IMAGE=isthmus:v1 LINKERD=" + linkerd, []string{"kind: AuthorizationPolicy"}, nil},
		{
			"FOLDER=link",
			[]string{"namespace: linkerd-multicluster", "name: isthmus-remote-access"},
			[]string{"kind: Deployment"},
		},
		{"FOLDER=link NAMESPACE=mesh", []string{
			"namespace: mesh", "name: isthmus-remote-access-mesh",
			"name: system:serviceaccount:mesh:isthmus-remote-access",
		}, []string{"namespace: linkerd-multicluster"}},
		{
			"FOLDER=link NAMESPACE=linkerd-multicluster", nil,
			[]string{"name: isthmus-remote-access-linkerd-multicluster"},
		},
		{"FOLDER=monitoring NAMESPACE=mon", []string{"kind: PrometheusRule", "kind: ConfigMap", "namespace: mon"}, nil},
		{"FOLDER=monitoring RUNBOOKS=https://git.example.com/isthmus/docs/operations.md?ref=v1", []string{
			"runbook_url: https://git.example.com/isthmus/docs/operations.md?ref=v1#isthmusclusterstale",
			"runbook_url: https://git.example.com/isthmus/docs/operations.md?ref=v1#isthmuscordonforgotten",
			"alert: IsthmusCordonForgotten",
		}, nil},
		{"FOLDER=dashboards", []string{"kind: ConfigMap"}, []string{"kind: PrometheusRule"}},
		{"FOLDER=linkerd LINKERD=" + linkerd + " IMAGE=registry.example.com/isthmus VERSION=v1",
			[]string{"image: registry.example.com/isthmus:v1", "name: linkerd-destination"},
			[]string{"app.kubernetes.io/version: v1", "kind: Pod", "image: isthmus:dev"}},
	} {
		text, err := build(tree, strings.Fields(c.args))
		if err != nil {
			t.Errorf("%s: %v", c.args, err)
		}
		var lines []string
		for line := range strings.Lines(string(text)) {
			lines = append(lines, strings.TrimPrefix(strings.TrimSpace(line), "- "))
		}
		for _, line := range c.has {
			if !slices.Contains(lines, line) {
				t.Errorf("%s: has no line %q", c.args, line)
			}
		}
		for _, line := range c.lack {
			if slices.Contains(lines, line) {
				t.Errorf("%s: has the line %q", c.args, line)
			}
		}
	}
}

// TestRefused checks that invalid arguments print nothing and return an error with the variable's
// name.
func TestRefused(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other.yaml")
	if err := os.WriteFile(
		other,
		[]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n"),
		0o600,
	); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"FOLDER=instal":   `^FOLDER=instal: there is no such folder: choose install,`,
		"FOLDER=../docs":  `^FOLDER=\.\./docs: there is no such folder`,
		"FOLDERS=install": `^"FOLDERS=install": give NAME=VALUE, of FOLDER,`,
		"install":         `^"install": give NAME=VALUE`,
		"IMAGE=isthmus": `^IMAGE=isthmus has no tag, so that it is not known which one to run: ` +
			`give it, or VERSION=v1$`,
		"IMAGE=Isthmus:v1":                           `^IMAGE=Isthmus:v1 is no image: give it as`,
		"IMAGE=isthmus@sha256:1234":                  `^IMAGE=isthmus@sha256:1234 is no image`,
		"VERSION=v1+dirty":                           `^VERSION=v1\+dirty can't be an image's tag`,
		"FOLDER=link IMAGE=isthmus:v1":               `^IMAGE=isthmus:v1: FOLDER=link has no image: leave IMAGE out$`,
		"FOLDER=monitoring VERSION=v1":               `^VERSION=v1: FOLDER=monitoring has no image: leave VERSION out$`,
		"NAMESPACE=My_Mesh":                          `^NAMESPACE=My_Mesh can't be the name of a namespace: `,
		"RUNBOOKS=https://git.example.com/":          `^RUNBOOKS=\S+: only FOLDER=monitoring has alerts: leave it out$`,
		"FOLDER=monitoring RUNBOOKS=docs":            `^RUNBOOKS=docs is not the address of a page`,
		"FOLDER=monitoring RUNBOOKS=https://a/b#c":   `^RUNBOOKS=\S+ is not the address of a page`,
		"FOLDER=monitoring RUNBOOKS=https://a/{{b}}": `^RUNBOOKS=\S+ is not the address of a page`,

		"FOLDER=linkerd": `^FOLDER=linkerd changes Linkerd's own manifest: give a file with it`,
		"FOLDER=linkerd NAMESPACE=mesh LINKERD=a": `^NAMESPACE=mesh: FOLDER=linkerd leaves objects ` +
			`where LINKERD has them`,
		"FOLDER=linkerd VERSION=v1 LINKERD=absent": `^LINKERD=absent: .*no such file`,
		"FOLDER=linkerd VERSION=v1 LINKERD=" + other: `^LINKERD=\S+ can't be changed: ` +
			`is it Linkerd's manifest, with Deployment linkerd-destination`,
		"LINKERD=linkerd.yaml": `^LINKERD=linkerd\.yaml: only FOLDER=linkerd reads it: leave it out$`,
		"VERSION=v1 WITH=podmonitors": `^WITH=podmonitors: FOLDER=install has no component "podmonitors"; it has ` +
			`\[.*"podmonitor"`,
		"FOLDER=link WITH=podmonitor": `^WITH=podmonitor: FOLDER=link has no component "podmonitor"; it has \[\]$`,
	} {
		text, err := build(tree, strings.Fields(args))
		if err == nil || len(text) > 0 || !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("%s: %d bytes, error %v, not %s", args, len(text), err, want)
		}
	}
}

// TestMake checks that make passes its variables to the command and prints nothing else to standard
// output.
func TestMake(t *testing.T) {
	for _, args := range []string{
		"FOLDER=install WITH=podmonitor IMAGE=registry.example.com/isthmus VERSION=v1 NAMESPACE=mesh",
		"FOLDER=linkerd IMAGE=isthmus:v1 LINKERD=e2e/testdata/linkerd/destination.yaml",
		"FOLDER=monitoring RUNBOOKS=https://git.example.com/isthmus/docs/operations.md",
	} {
		out, complaint, err := runMake(t, strings.Fields(args)...)
		if err != nil {
			t.Fatalf("%s: %v\n%s", args, err, complaint)
		}
		want, err := build(tree, strings.Fields(strings.Replace(args, "LINKERD=e2e", "LINKERD=../..", 1)))
		if err != nil || out != string(want) {
			t.Errorf("%s: %v, prints\n%s\nnot\n%s", args, err, out, want)
		}
	}
	out, complaint, err := runMake(t, "FOLDER=none")
	if err == nil || out != "" || !strings.Contains(complaint, "manifests: FOLDER=none: there is no such folder") {
		t.Errorf("FOLDER=none: %v, prints %q and complains %q", err, out, complaint)
	}
}

func runMake(t *testing.T, args ...string) (out, complaint string, err error) {
	cmd := exec.CommandContext(t.Context(), "make", append([]string{"manifests"}, args...)...)
	cmd.Dir = root
	// The variables of a parent make must not reach this make.
	cmd.Env = slices.DeleteFunc(
		os.Environ(),
		func(v string) bool { return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS=") },
	)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}
