package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"isthmus/e2e/harness/kube"
)

//go:generate go test -run ^TestPrometheusRule$ . -update

// TestPrometheusRule checks that manifests/monitoring contains the rules from manifests/alerts in
// the format of the Prometheus operator. make generate writes them.
func TestPrometheusRule(t *testing.T) {
	alerts, err := os.ReadFile(manifest(t, "alerts/isthmus.yaml"))
	must(t, err)
	_, groups, found := strings.Cut(string(alerts), "\ngroups:\n")
	if !found {
		t.Fatal("manifests/alerts/isthmus.yaml has no groups")
	}
	text := `# Generated from ../alerts/isthmus.yaml by make generate, for the Prometheus operator.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: isthmus
spec:
  groups:
`
	for line := range strings.Lines(groups) {
		text += "  " + line
	}
	path := manifest(t, "monitoring/prometheusrule.yaml")
	if *update {
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	is, err := os.ReadFile(path)
	must(t, err)
	if string(is) != text {
		t.Error("manifests/monitoring/prometheusrule.yaml is out of date: run make generate")
	}
	var rules struct{ Groups []any }
	must(t, yaml.Unmarshal(alerts, &rules))
	if len(rules.Groups) == 0 {
		t.Fatal("manifests/alerts has no groups")
	}
	built := named(t, build(t, manifest(t, "monitoring")), "PrometheusRule", "isthmus")
	for _, d := range differences("spec.groups", built.Object["spec"].(map[string]any)["groups"], rules.Groups) {
		t.Error(d)
	}
}

// TestMonitoring applies manifests/monitoring and the component podmonitor. The objects must have
// the labels that Grafana's sidecar and the Prometheus operator select. The CRDs of the operator
// are replaced by stand-ins.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	server := startClusters(t, []string{"namespace", "serviceaccount"}, "west")[0]
	c := client(t, server)
	servePrometheusOperator(t, c)
	c = client(t, server) // a new client that discovers the CRDs
	must(t, c.Apply(t.Context(), restricted("linkerd"), restricted("monitoring")))

	monitored := build(t, overlay(
		t,
		kustomization{
			Resources:  []string{"install"},
			Components: []string{"install/podmonitor"},
			Namespace:  "linkerd",
		},
		nil,
	))
	alone := build(t, overlay(t, kustomization{Resources: []string{"monitoring"}, Namespace: "monitoring"}, nil))
	apply(t, c, monitored)
	apply(t, c, alone)
	for name, file := range map[string]string{
		"isthmus-dashboard-clusters": "clusters",
		"isthmus-dashboard-gateway":  "gateway",
	} {
		m := find[corev1.ConfigMap](t, alone, "ConfigMap", name)
		text, err := os.ReadFile(manifest(t, "dashboards/"+file+".json"))
		must(t, err)
		if got := m.Data["isthmus-"+file+".json"]; got != string(text) || !json.Valid(text) ||
			m.Labels["grafana_dashboard"] != "1" ||
			len(m.Data) != 1 {
			t.Errorf(
				"ConfigMap %s: labels %v, %d files, one of them with %d bytes, want %d",
				name,
				m.Labels,
				len(m.Data),
				len(got),
				len(text),
			)
		}
	}
	monitor := named(t, monitored, "PodMonitor", "isthmus")
	wanted, _, err := unstructured.NestedStringMap(monitor.Object, "spec", "selector", "matchLabels")
	pods := find[appsv1.Deployment](t, monitored, "Deployment", "isthmus").Spec.Template
	if err != nil || len(wanted) == 0 || !labels.SelectorFromSet(wanted).Matches(labels.Set(pods.Labels)) {
		t.Errorf("PodMonitor selects %v, want %v: %v", wanted, pods.Labels, err)
	}
	endpoints, _, err := unstructured.NestedSlice(monitor.Object, "spec", "podMetricsEndpoints")
	if err != nil || len(endpoints) != 1 || endpoints[0].(map[string]any)["port"] != "admin" ||
		endpoints[0].(map[string]any)["path"] != "/metrics" {
		t.Errorf("PodMonitor scrapes %v, %v", endpoints, err)
	}
}

// servePrometheusOperator installs stand-ins for CRDs of the Prometheus operator, and waits until
// they are served.
func servePrometheusOperator(t *testing.T, c *kube.Client) {
	t.Helper()
	must(t, c.ApplyYAML(
		t.Context(),
		definition("PodMonitor", "podmonitors")+"---\n"+definition("PrometheusRule", "prometheusrules"),
	))
	await(t, "the CRDs are served", func() error {
		list, err := c.Discovery().ServerResourcesForGroupVersion("monitoring.coreos.com/v1")
		if err == nil && len(list.APIResources) != 2 {
			err = fmt.Errorf("%d CRDs are served", len(list.APIResources))
		}
		return err
	})
}

// definition returns a CRD of the Prometheus operator that accepts any fields.
func definition(kind, plural string) string {
	return strings.NewReplacer("KIND", kind, "PLURAL", plural).Replace(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: PLURAL.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {kind: KIND, listKind: KINDList, plural: PLURAL}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`)
}
