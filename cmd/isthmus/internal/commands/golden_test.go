package commands

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/internal/adminapi"
)

var update = flag.Bool("update", false, "write testdata/debug/*/*.golden as the commands print them now")

// goldenRuns contains the command lines of each golden file.
var goldenRuns = map[string][]string{
	"check":    {"check", "check -o json"},
	"clusters": {"clusters", "clusters -o json"},
	"explain":  {"explain shop/web-federated", "explain shop/web-federated -o json"},
	"exports":  {"exports", "exports --diff", "exports --written", "exports -o json"},
	"services": {
		"services", "services web-federated.shop.svc.cluster.local:80",
		"services shop/web-federated shop/none", "services -o json",
	},
	"version": {"version", "version -o json"},
}

// TestGolden runs commands against the debug API of a replica and compares their output with the
// golden files. Each directory of testdata/debug contains responses of a replica with real API
// servers. "curl -s ADDR/debug/PAGE" printed each PAGE.json, and the file date contains the Date
// header.
//
//   - healthy: e2e/cmd/demo --keep, with isthmus.io/prefer on a Service and streams of five
//     proxies.
//   - many: a replica with --exports=plan, 26 federated Services that lack a member, and a Service
//     with 56 addresses.
//   - trouble: a cluster whose API server hangs, a cordon, an unusable link Secret, address ranges
//     that exclude endpoints, and a Service with invalid annotations.
//
// "go test -run TestGolden -update" updates the golden files.
func TestGolden(t *testing.T) {
	t.Setenv("LC_ALL", "C.UTF-8")
	worlds, err := os.ReadDir("testdata/debug")
	if err != nil {
		t.Fatal(err)
	}
	for _, world := range worlds {
		for _, name := range slices.Sorted(maps.Keys(goldenRuns)) {
			t.Run(world.Name()+"/"+name, func(t *testing.T) {
				dir := filepath.Join("testdata/debug", world.Name())
				var printed string
				synctest.Test(t, func(t *testing.T) { printed = runGolden(t, dir, goldenRuns[name]) })
				compareGolden(t, filepath.Join(dir, name+".golden"), printed)
			})
		}
	}
}

// runGolden runs commands that read the pages of a directory, at the time when the pages were
// captured. The result is the output of the commands.
func runGolden(t *testing.T, dir string, runs []string) string {
	captured, err := http.ParseTime(strings.TrimSpace(readFile(t, filepath.Join(dir, "date"))))
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Until(captured)) // advances the clock of the synctest bubble

	var build adminapi.Build
	if err := json.Unmarshal([]byte(readFile(t, filepath.Join(dir, "version.json"))), &build); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(adminapi.FormatHeader, strconv.Itoa(adminapi.Format))
		w.Header().Set(adminapi.VersionHeader, build.Version)
		w.Header().Set(adminapi.CommitHeader, build.Commit)
		http.ServeFile(w, r, filepath.Join(dir, filepath.Base(r.URL.Path)+".json"))
	}))
	defer server.Close()

	admin := strings.TrimPrefix(server.URL, "http://")
	var printed strings.Builder
	for _, run := range runs {
		var stdout, stderr bytes.Buffer
		program := newProgram()
		program.Build = build
		details := cli.Group{Commands: []cli.Command{Version(build, func(io.Writer) {})}}
		program.Groups = append(program.Groups, details)
		args := append(strings.Fields(run), "--admin", admin)
		code := program.Run(t.Context(), cli.Process{Args: args, Stdout: &stdout, Stderr: &stderr})

		fmt.Fprintf(&printed, "$ isthmus %s\n%s", run, stdout.String())
		for line := range strings.Lines(stderr.String()) {
			printed.WriteString("stderr: " + line)
		}
		fmt.Fprintf(&printed, "exit code %d\n\n", code)
	}
	return strings.ReplaceAll(printed.String(), admin, "ADMIN")
}

// compareGolden compares an output with a golden file. With -update, compareGolden writes the file.
func compareGolden(t *testing.T, file, printed string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(printed), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want := readFile(t, file)
	if printed == want {
		return
	}
	got, expected := strings.Split(printed, "\n"), strings.Split(want, "\n")
	for i, line := range got {
		if i >= len(expected) || line != expected[i] {
			t.Fatalf("%s differs in line %d:\n%s\nrun with -update, and look at the difference", file, i+1, line)
		}
	}
	t.Fatalf("%s has lines after:\n%s", file, printed)
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
