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
	} {
		err := run(t.Context(), strings.Fields(test.line), io.Discard)
		if !errors.As(err, new(cli.UsageError)) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("controlplane %s: %v; want a usage error with %s", test.line, err, test.want)
		}
	}
}

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"serve", "--help"}, &out); !errors.Is(err, flag.ErrHelp) || !strings.Contains(out.String(), help) || !strings.Contains(out.String(), "-dir folder") {
		t.Errorf("%v\n%s", err, out.String())
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
