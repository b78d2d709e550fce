package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

// checkAdmitted: the Deployment's Pods are admitted, and it is Pod security that decides that.
func checkAdmitted(t *testing.T, c *kube.Client, d *appsv1.Deployment) {
	pods := c.CoreV1().Pods(d.Namespace)
	create := func(name string, change func(*corev1.PodSpec)) error {
		pod := &corev1.Pod{ObjectMeta: d.Spec.Template.ObjectMeta, Spec: *d.Spec.Template.Spec.DeepCopy()}
		pod.Name = name
		change(&pod.Spec)
		_, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
		return err
	}
	for _, name := range []string{"isthmus-0", "isthmus-1"} {
		if err := create(name, func(*corev1.PodSpec) {}); err != nil {
			t.Errorf("Pod %s: %v", name, err)
		}
	}
	for name, change := range map[string]func(*corev1.PodSpec){
		"no-seccomp": func(s *corev1.PodSpec) { s.SecurityContext.SeccompProfile = nil },
		"privileged": func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil },
		"root":       func(s *corev1.PodSpec) { s.SecurityContext.RunAsNonRoot = nil },
		"network":    func(s *corev1.PodSpec) { s.HostNetwork = true },
	} {
		if err := create(name, change); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "violates PodSecurity") {
			t.Errorf("Pod %s is not refused by Pod security: %v", name, err)
		}
	}
}

// checkSelected: what selects Pods selects these, and the ports that are named are theirs.
func checkSelected(t *testing.T, objects []*unstructured.Unstructured, template corev1.PodTemplateSpec) {
	service := find[corev1.Service](t, objects, "Service", "isthmus")
	budget := find[policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget", "isthmus")
	policy := find[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy", "isthmus")
	selectors := map[string]*metav1.LabelSelector{
		"Service":             {MatchLabels: service.Spec.Selector},
		"PodDisruptionBudget": budget.Spec.Selector,
		"NetworkPolicy":       &policy.Spec.PodSelector,
		"Deployment":          find[appsv1.Deployment](t, objects, "Deployment", "isthmus").Spec.Selector,
	}
	for i := range template.Spec.TopologySpreadConstraints {
		selectors[fmt.Sprintf("spread %d", i)] = template.Spec.TopologySpreadConstraints[i].LabelSelector
	}
	if len(selectors) != 6 {
		t.Errorf("%d selectors, of which six are expected", len(selectors))
	}
	for name, s := range selectors {
		selector, err := metav1.LabelSelectorAsSelector(s)
		if err != nil || selector.Empty() || !selector.Matches(labels.Set(template.Labels)) {
			t.Errorf("%s selects %v, which is not %v: %v", name, selector, template.Labels, err)
		}
	}
	c := template.Spec.Containers[0]
	named := []intstr.IntOrString{service.Spec.Ports[0].TargetPort, c.LivenessProbe.HTTPGet.Port, c.ReadinessProbe.HTTPGet.Port}
	for _, rule := range policy.Spec.Ingress {
		for _, p := range rule.Ports {
			named = append(named, *p.Port)
		}
	}
	for _, port := range named {
		if !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == port.StrVal }) {
			t.Errorf("the container has no port %s", port.String())
		}
	}
}

// TestTimesAddUp: where the gateway is installed, it has ended by itself before it would be killed.
func TestTimesAddUp(t *testing.T) {
	own := find[appsv1.Deployment](t, build(t, manifest(t, "install")), "Deployment", "isthmus")
	for name, template := range map[string]corev1.PodTemplateSpec{"install": own.Spec.Template, "linkerd": inLinkerd(t, "plain").Spec.Template} {
		for _, c := range template.Spec.Containers {
			if c.Name != "isthmus" && c.Name != "destination" {
				continue
			}
			grace := 30 * time.Second
			if s := template.Spec.TerminationGracePeriodSeconds; s != nil {
				grace = time.Duration(*s) * time.Second
			}
			hook, err := preStop(c)
			must(t, err)
			delay, drain := duration(t, c.Args, "shutdown-delay"), duration(t, c.Args, "drain")
			// As docs/operations.md has it: the process has ended a second after both.
			if needs := hook + delay + drain + time.Second; needs > grace || delay == 0 {
				t.Errorf("%s: preStop %v, --shutdown-delay %v, --drain %v and a second are more than the grace of %v", name, hook, delay, drain, grace)
			}
			if ready := time.Duration(own.Spec.MinReadySeconds) * time.Second; name == "install" && (delay <= 30*time.Second || ready <= delay+drain) {
				t.Errorf("--shutdown-delay %v is not longer than DNS caches live, or minReadySeconds %v not than it and --drain %v", delay, ready, drain)
			}
		}
	}
}

// TestHungIsKilledSoon: a gateway that hangs is killed long before the grace of one that drains.
func TestHungIsKilledSoon(t *testing.T) {
	p := find[appsv1.Deployment](t, build(t, manifest(t, "install")), "Deployment", "isthmus").Spec.Template.Spec
	if grace := p.Containers[0].LivenessProbe.TerminationGracePeriodSeconds; grace == nil || *grace > 10 || *grace >= *p.TerminationGracePeriodSeconds {
		t.Errorf("the liveness probe has no grace of its own of 10 s at most")
	}
}

// preStop returns how long a container's hook takes before SIGTERM.
func preStop(c corev1.Container) (time.Duration, error) {
	switch {
	case c.Lifecycle == nil || c.Lifecycle.PreStop == nil:
		return 0, nil
	case c.Lifecycle.PreStop.Sleep == nil:
		return 0, fmt.Errorf("container %s: how long does its preStop hook take?", c.Name)
	}
	return time.Duration(c.Lifecycle.PreStop.Sleep.Seconds) * time.Second, nil
}

// duration returns a flag's value: that of the arguments, or else the default that the help names.
func duration(t *testing.T, args []string, name string) time.Duration {
	t.Helper()
	for _, arg := range slices.Backward(args) {
		if value, ok := strings.CutPrefix(strings.TrimLeft(arg, "-"), name+"="); ok {
			d, err := time.ParseDuration(value)
			must(t, err)
			return d
		}
	}
	help := regexp.MustCompile(`(?s)\n +--` + name + ` .*?\(default\s+([^)]+)\)`).FindStringSubmatch(gatewayHelp(t))
	if help == nil {
		t.Fatalf("the help has no default of --%s", name)
	}
	d, err := time.ParseDuration(help[1])
	must(t, err)
	return d
}

// TestMemory: the gateway reads the container's limit by itself, and takes 90 % of it for Go. GOMEMLIMIT from the limit
// would be all of it, of which the kernel kills.
func TestMemory(t *testing.T) {
	c := find[appsv1.Deployment](t, build(t, manifest(t, "install")), "Deployment", "isthmus").Spec.Template.Spec.Containers[0]
	if limit := c.Resources.Limits.Memory(); limit.Value() < 256<<20 || c.Resources.Requests.Memory().Cmp(*limit) > 0 {
		t.Errorf("of memory %v are requested and %v the limit", c.Resources.Requests.Memory(), limit)
	}
	if slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" || e.Name == "GOGC" }) {
		t.Error("GOMEMLIMIT or GOGC is set: the gateway knows better")
	}
	// A limit that changes in place is not read again: GOMEMLIMIT, --cluster-memory and --view-memory are those of the start.
	if !slices.Contains(c.ResizePolicy, corev1.ContainerResizePolicy{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}) {
		t.Errorf("a resize of memory in place does not restart the container: %v", c.ResizePolicy)
	}
	if _, limited := c.Resources.Limits[corev1.ResourceCPU]; limited || c.Resources.Requests.Cpu().IsZero() {
		t.Error("CPU is limited, or none requested")
	}
}

// checkProbes asks what the kubelet asks.
func checkProbes(t *testing.T, c corev1.Container, g *harness.Replica) {
	for name, probe := range map[string]*corev1.Probe{"liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
		if _, err := harness.GetPage(t.Context(), g.MetricsAddr(), probe.HTTPGet.Path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	help := gatewayHelp(t)
	for port, flag := range map[int32]string{8086: "addr", 9996: "metrics-addr"} {
		if !regexp.MustCompile(fmt.Sprintf(`(?s)\n +--%s .*?\(default\s+":%d"\)`, flag, port)).MatchString(help) ||
			!slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.ContainerPort == port }) {
			t.Errorf("port %d is not the default of --%s, or not the container's", port, flag)
		}
	}
}
