package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/e2e/object"
)

// TestForgedContents: Services with the mark, each with 20,000 members of clusters that are not
// linked, with many ports and labels, take little memory, and keep no export of another namespace
// from being written. None of these Services is changed or deleted before its time.
func TestForgedContents(t *testing.T) {
	t.Parallel()
	const objects, members, ports, labels = 40, 20_000, 2000, 500
	const mostMemory = 500 << 20
	x := newExporting(t)
	must(t, x.west.Apply(t.Context(), object.Namespace("evil")))
	x.grant(true)
	binding := x.west.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	// Everything else also holds without the guard of the mark.
	must(t, binding.Delete(t.Context(), "isthmus-exports-mark", metav1.DeleteOptions{}))
	g := x.gateway("-exports=on", "-unlinked-after=10m")

	for i := range objects {
		name := fmt.Sprintf("x%d-federated", i)
		s := object.Service("evil", name)
		s.Spec.Selector = nil
		s.Spec.Ports = nil
		for n := range ports {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("p", n), Port: int32(n + 1)})
		}
		s.Labels = map[string]string{"isthmus.io/written-by": "linkerd", "mirror.linkerd.io/mirrored-service": "true"}
		for n := range labels {
			s.Labels[fmt.Sprint("label-", n)] = "value"
		}
		var list strings.Builder
		for n := range members {
			fmt.Fprintf(&list, "x%d@%d,", i, n)
		}
		s.Annotations = map[string]string{
			"isthmus.io/written-as":                    "Service evil/" + name,
			"multicluster.linkerd.io/remote-discovery": strings.TrimSuffix(list.String(), ","),
			"isthmus.io/copied":                        strings.Repeat("label:a=b,", 1000),
		}
		await(t, "a forged Service is written", func() error {
			_, err := x.west.CoreV1().Services("evil").Create(t.Context(), s.DeepCopy(), metav1.CreateOptions{})
			return err
		})
	}
	label(t, x.east, "web", map[string]string{"mirror.linkerd.io/exported": "remote-discovery"})
	await(t, "the export of another namespace is written", func() error {
		_, err := x.west.CoreV1().Services("shop").Get(t.Context(), "web-east", metav1.GetOptions{})
		return err
	})
	label(t, x.east, "web", nil)
	await(t, "the export of another namespace is withdrawn", func() error {
		if names := x.written(); len(names) > 0 {
			return fmt.Errorf("written are %q", names)
		}
		return nil
	})
	list, err := x.west.CoreV1().Services("evil").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for _, s := range list.Items {
		if len(s.Spec.Ports) != ports || s.Generation > 1 {
			t.Errorf("%s was changed", s.Name)
		}
	}
	if n := len(list.Items); n != objects {
		t.Errorf("%d forged Services are left, not %d", n, objects)
	}
	if used := peakMemory(t, g.Pid()); used > mostMemory {
		t.Errorf("the gateway took %d MiB", used>>20)
	} else {
		t.Logf("the gateway took %d MiB", used>>20)
	}
}

// peakMemory returns the largest resident set that a process has had, in bytes.
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmHWM:" {
			n, err := strconv.Atoi(fields[1])
			must(t, err)
			return n << 10
		}
	}
	t.Fatal("the process shows no VmHWM")
	return 0
}
