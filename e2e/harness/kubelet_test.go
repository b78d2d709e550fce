package harness

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os/exec"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
)

// TestExec checks that clients receive the output and the exit code of a command in a Pod.
func TestExec(t *testing.T) {
	client := fake.NewClientset()
	k, err := StartKubelet(t.Context(), client, "node")
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if _, err := execute(t, client, "true"); err == nil {
		t.Error("a command is executed without OnExec")
	}

	k.OnExec(func(command []string, out io.Writer) error {
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Stdout, cmd.Stderr = out, out
		return cmd.Run()
	})
	if text, err := execute(t, client, "sh", "-c", "echo one; echo two >&2"); err != nil || text != "one\ntwo\n" {
		t.Errorf("%q, %v", text, err)
	}
	text, err := execute(t, client, "sh", "-c", "echo out; exit 3")
	if code := (utilexec.CodeExitError{}); !errors.As(err, &code) || code.Code != 3 || text != "out\n" {
		t.Errorf("%q, %v, want exit code 3", text, err)
	}
}

// execute runs a command like a client of an API server, but connects directly to the kubelet.
func execute(t *testing.T, client *fake.Clientset, command ...string) (string, error) {
	t.Helper()
	node, err := client.CoreV1().Nodes().Get(t.Context(), "node", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	at := &url.URL{
		Scheme:   "https",
		Host:     fmt.Sprintf("127.0.0.1:%d", node.Status.DaemonEndpoints.KubeletEndpoint.Port),
		Path:     "/exec/shop/web/main",
		RawQuery: url.Values{"command": command, "output": {"1"}, "tty": {"1"}}.Encode(),
	}
	config := &rest.Config{TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	executor, err := remotecommand.NewSPDYExecutor(config, "POST", at)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out, Tty: true})
	return out.String(), err
}
