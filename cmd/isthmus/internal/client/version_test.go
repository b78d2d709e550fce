package client

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/internal/adminapi"
)

// TestVersion: this program's version is there whatever a gateway answers.
func TestVersion(t *testing.T) {
	own := adminapi.Build{Version: "v1.2.3", Commit: "abc", Go: "go1.26"}
	page := `{"version":"v1.2.3","commit":"abc","go":"go1.26"}`
	for _, c := range []struct {
		name, args     string
		page           http.HandlerFunc
		code           int
		stdout, stderr string
	}{
		{"the same", "version", text(page), 0, "DETAILS\ngateway ADMIN: v1.2.3, commit abc, go1.26\n", ""},
		{"another", "version", text(strings.ReplaceAll(page, "1.2.3", "1.\\u001b")), 0, "DETAILS\ngateway ADMIN: \"v1.\\x1b\", commit abc, go1.26 (not that of this program)\n", ""},
		{"older", "version", http.NotFound, 0, "DETAILS\n", "isthmus version: the version of gateways is not known: ADMIN answers 404 Not Found for /debug/version: is it"},
		{"this only", "version --client", text(page), 0, "DETAILS\n", ""},
		{"json", "version -o json", text(page), 0, `{"client":{"version":"v1.2.3","commit":"abc","go":"go1.26"},"gateways":[{"gateway":"ADMIN","version":"v1.2.3","commit":"abc","go":"go1.26"}]}` + "\n", ""},
		{"arguments", "version x", text(page), 2, "", `isthmus version: unexpected argument "x"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			admin := startAdmin(t, map[string]http.HandlerFunc{"/debug/version": c.page})
			program := &cli.Program{Name: "isthmus", Groups: []cli.Group{{Title: "Other", Verbs: []cli.Verb{
				VersionVerb(own, func(w io.Writer) { io.WriteString(w, "DETAILS\n") }),
			}}}}
			var out, errs bytes.Buffer
			code := program.Run(context.Background(), cli.Process{Args: append(strings.Fields(c.args), "--admin", admin), Stdout: &out, Stderr: &errs, Signals: make(chan os.Signal)})
			stdout, stderr := strings.ReplaceAll(out.String(), admin, "ADMIN"), strings.ReplaceAll(errs.String(), admin, "ADMIN")
			if code != c.code || stdout != c.stdout || !strings.HasPrefix(stderr, c.stderr) || c.stderr == "" && stderr != "" {
				t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
			}
			if strings.Contains(c.args, "json") && !json.Valid(out.Bytes()) {
				t.Error("no JSON")
			}
		})
	}
}
