package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// kubeconfig writes one for an API server at addr.
func kubeconfig(t *testing.T, addr string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","current-context":"c",
		"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
		"clusters":[{"name":"c","cluster":{"server":"http://` + addr + `"}}],
		"users":[{"name":"u","user":{"token":"t"}}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestProcessFails: what keeps a gateway from starting is printed in one line.
func TestProcessFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBECONFIG", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	config := kubeconfig(t, freeAddr(t))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--kubeconfig=/does/not/exist"}, "isthmus gateway: --kubeconfig: stat /does/not/exist: no such file"},
		{nil, "isthmus gateway: no cluster to run in: this is not a Pod, and there is neither"},
		{[]string{"--kubeconfig", config, "--metrics-addr", l.Addr().String()}, "isthmus gateway: --metrics-addr: listen tcp "},
		{[]string{"--kubeconfig", config, "--metrics-addr=127.0.0.1:0", "--addr", l.Addr().String()}, "isthmus gateway: --addr: listen tcp "},
	} {
		code, out, err := call(append([]string{"gateway", "--log-level=fatal"}, c.args...)...)
		if code != 1 || out != "" || !strings.HasPrefix(err, c.want) || strings.Count(err, "\n") != 1 {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", c.args, code, out, err)
		}
	}
}
