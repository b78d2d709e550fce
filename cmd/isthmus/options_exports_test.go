package main

import (
	"strings"
	"testing"
	"time"

	"isthmus/cmd/isthmus/internal/cli"
)

func TestExportFlags(t *testing.T) {
	o := parsed(t)
	if o.exports != "off" || o.unlinkedAfter != 10*time.Minute || o.multiclusterNamespace != "linkerd-multicluster" || o.clusterName != "local" ||
		!o.labels || !o.kept(new(mirrors)).ServiceExports {
		t.Errorf("defaults: %+v", o.exportOptions)
	}
	o = parsed(t, "--exports=on", "--export-namespaces=shop", "--local-federated-selector=a=b", "--local-excluded-labels=x, example.com/*", "--local-excluded-annotations=y")
	own := o.kept(new(mirrors)).Selectors("")
	if own.Mirror != nil || !own.Federated(map[string]string{"a": "b"}) || own.Federated(map[string]string{"mirror.linkerd.io/federated": "member"}) {
		t.Error("what is selected of the own cluster")
	}
	for key, excluded := range map[string]bool{"x": true, "xy": false, "example.com/a": true, "example.comx/a": false, "y": false} {
		if own.ExcludedLabels(key) != excluded {
			t.Errorf("label %s excluded: %v", key, !excluded)
		}
	}
	if !own.ExcludedAnnotations("y") || own.ExcludedAnnotations("x") {
		t.Error("which annotations are excluded")
	}
	if o := parsed(t, "--export-sources=labels"); !o.labels || o.kept(new(mirrors)).ServiceExports {
		t.Error("ServiceExports are read though labels alone are sources")
	}
	if parsed(t, "--export-sources=serviceexports").labels {
		t.Error("labels are a source though they are left out")
	}
	if parsed(t, "--exports=on", "--local-federated-selector=").kept(new(mirrors)).Selectors("").Federated != nil {
		t.Error("an empty selector selects something")
	}
}

// TestExportFlagErrors: the gateway does not start with values that it can't use, and tells what to give.
func TestExportFlagErrors(t *testing.T) {
	for arg, want := range map[string]string{
		"--unlinked-after=9s":                 "--unlinked-after is 9s: give a duration from 10s to 168h",
		"--unlinked-after=169h":               "--unlinked-after is 169h0m0s: give a duration from 10s to 168h",
		"--export-sources=labels,mcs":         `--export-sources has "mcs": give labels, serviceexports, or both`,
		"--export-sources=":                   `--export-sources has "": give labels, serviceexports, or both`,
		"--cluster-name=East":                 `--cluster-name="East" can't be the name of a cluster: `,
		"--export-namespaces=Shop":            `--export-namespaces: "Shop" is no pattern of namespaces`,
		"--local-federated-selector=a in":     "--local-federated-selector: ",
		"--local-excluded-labels=a b":         `--local-excluded-labels: "a b" is no key`,
		"--local-excluded-annotations=a_/*,c": `--local-excluded-annotations: "a_/*" is no key`,
	} {
		o := new(options)
		err := run(gatewayVerb(o), []string{arg}, func(p cli.Process) error { _, err := o.accept(p); return err })
		if _, usage := err.(cli.UsageError); !usage || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", arg, err, want)
		}
	}
	if err := run(gatewayVerb(new(options)), []string{"--exports=yes"}, func(cli.Process) error { return nil }); err == nil || !strings.Contains(err.Error(), "give off or plan or on") {
		t.Errorf("--exports=yes: %v", err)
	}
}
