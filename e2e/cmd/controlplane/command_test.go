package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"isthmus/e2e/cmd/internal/cli"
)

func TestUsage(t *testing.T) {
	for _, test := range []struct {
		line string
		want string
	}{
		{"begin west", `no verb "begin"`},
		{"serve --name west", "--dir is missing"},
		{"serve --dir /nowhere", `--name ""`},
		{"serve --name West --dir /nowhere", `--name "West"`},
		{"serve --dir /nowhere west", `unexpected "west"`},
		{"serve --name west --dir /nowhere --controllers kubelet", `there is no "kubelet"`},
		{"serve --prot 1", "flag provided but not defined: -prot"},
		{"start --dir /nowhere", "name one cluster or more"},
		{"start --dir /nowhere ../west", `"../west": a name has`},
		{"kill west --dir /nowhere west", `"west" is named twice`},
	} {
		err := run(t.Context(), strings.Fields(test.line), io.Discard)
		if !errors.As(err, new(cli.UsageError)) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("controlplane %s: %v; want a usage error with %s", test.line, err, test.want)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, verb := range []string{"serve", "start", "stop", "kill", "pause", "resume", "list"} {
		var out bytes.Buffer
		if err := run(t.Context(), []string{verb, "--help"}, &out); !errors.Is(err, flag.ErrHelp) {
			t.Errorf("%s --help: %v", verb, err)
		}
		for _, want := range []string{"controlplane " + verb, "Flags:\n", "-dir folder"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s --help does not print %q:\n%s", verb, want, out.String())
			}
		}
		if !strings.Contains(overview, "  controlplane "+verb+" ") {
			t.Errorf("the overview does not mention %s", verb)
		}
	}
}

func TestVerbsOnClustersThatDoNotRun(t *testing.T) {
	dir := t.TempDir()
	for verb, want := range map[string]string{
		"stop": "", "kill": "",
		"pause":  "cluster west: not running",
		"resume": "cluster west: not running",
		"list":   `there is no cluster "west"`,
	} {
		err := run(t.Context(), []string{verb, "--dir", dir, "west"}, io.Discard)
		if got := message(err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %q; want %q", verb, got, want)
		}
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestParse(t *testing.T) {
	flags := newFlags("test", "", io.Discard)
	dir := flags.String("dir", "", "")
	names, rest, err := parse(flags, strings.Fields("west --dir x east -- --v=2 north"))
	if err != nil || *dir != "x" || !slices.Equal(names, []string{"west", "east"}) || !slices.Equal(rest, []string{"--v=2", "north"}) {
		t.Errorf("got %v, %v, %v, dir %q", names, rest, err, *dir)
	}
}

func TestParseControllers(t *testing.T) {
	names, err := parseControllers(" gc,,namespace, gc")
	if err != nil || !slices.Equal(names, []string{"gc", "namespace"}) {
		t.Errorf("got %v, %v", names, err)
	}
}

// TestCRDs holds the definitions to what the gateway's clients ask for.
func TestCRDs(t *testing.T) {
	crds, err := parseCRDs(crdsYAML)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, crd := range crds {
		version := crd.Spec.Versions[0]
		line := crd.Name + " " + version.Name
		if version.Subresources != nil && version.Subresources.Status != nil {
			line += " status"
		}
		got = append(got, line)
		if crd.Spec.Scope != apiextensionsv1.NamespaceScoped || len(crd.Spec.Versions) != 1 || !version.Served || !version.Storage {
			t.Errorf("%s: scope %s, versions %v", crd.Name, crd.Spec.Scope, crd.Spec.Versions)
		}
	}
	want := []string{
		"serviceprofiles.linkerd.io v1alpha2",
		"servers.policy.linkerd.io v1beta3",
		"externalworkloads.workload.linkerd.io v1beta1 status",
		"links.multicluster.linkerd.io v1alpha3 status",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestVersion: clients can parse the version.
func TestVersion(t *testing.T) {
	if v := kubernetesVersion(); !strings.HasPrefix(v, "v1.") {
		t.Errorf("the Kubernetes module's version is %q", v)
	}
}
