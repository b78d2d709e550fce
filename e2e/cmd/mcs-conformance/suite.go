//go:build linux

package main

import (
	"cmp"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"isthmus/e2e/harness"
)

// filter selects the specs that do not need EndpointSlices for imports.
const filter = "!EndpointSlice && !(DNS && Headless)"

func describe(suite string) error {
	info, err := buildinfo.ReadFile(suite)
	if err != nil {
		return fmt.Errorf("%s is not a program built by go test -c: %w", suite, err)
	}
	if info.Main.Path != module {
		return fmt.Errorf("%s is built from module %q: build the suite by go test -c in conformance of mcs-api",
			suite, info.Main.Path)
	}
	fmt.Printf("Suite %s of %s, label filter %q; logs and reports are in %s\n\n", suite, module, filter, out)
	return nil
}

const module = "sigs.k8s.io/mcs-api/conformance"

// test runs the specs against the clusters and prints the result of each spec.
func test(ctx context.Context, suite string, kubeconfigs []string) error {
	cmd := exec.CommandContext(ctx, suite, "-contexts="+strings.Join(names, ","), "-project=Isthmus",
		"-ginkgo.label-filter="+filter, "-ginkgo.json-report=specs.json", "-ginkgo.no-color", "-ginkgo.v")
	cmd.Dir = out // where it writes report.html
	cmd.Env = append(os.Environ(), "KUBECONFIG="+strings.Join(kubeconfigs, string(filepath.ListSeparator)))
	text, failed := cmd.CombinedOutput()
	if err := errors.Join(os.WriteFile(filepath.Join(out, "suite.log"), text, 0o644), ctx.Err()); err != nil {
		return err
	}
	report, err := os.ReadFile(filepath.Join(out, "specs.json"))
	if err != nil {
		return fmt.Errorf("the suite ended without a report: %w\n%s", failed, text)
	}
	var suites []struct{ SpecReports []spec }
	if err := json.Unmarshal(report, &suites); err != nil || len(suites) != 1 {
		return fmt.Errorf("the suite's report has %d suites: %w", len(suites), err)
	}
	if passed := show(suites[0].SpecReports); failed != nil || passed == 0 {
		return harness.ErrPrinted
	}
	return nil
}

// spec is an entry of Ginkgo's report. Setup and teardown have entries too.
type spec struct {
	LeafNodeType, LeafNodeText, State       string
	ContainerHierarchyTexts, LeafNodeLabels []string
	ContainerHierarchyLabels                [][]string
	Failure                                 struct{ Message string }
}

func words(texts ...string) string {
	return strings.Join(strings.Fields(strings.Join(texts, " ")), " ")
}

func (s spec) row() string {
	name := cmp.Or(words(append(s.ContainerHierarchyTexts, s.LeafNodeText)...), s.LeafNodeType)
	labels := strings.Join(append(slices.Concat(s.ContainerHierarchyLabels...), s.LeafNodeLabels...), ", ")
	text := strings.ReplaceAll(words(s.State, s.Failure.Message), "|", "/")
	return fmt.Sprintf("| %.300s | %s | %s |", text, labels, name)
}

// show prints a table of all specs that are not skipped, and returns the number of passed specs.
func show(all []spec) (passed int) {
	var rows []string
	for _, s := range all {
		if s.LeafNodeType == "It" || s.State != "passed" {
			rows = append(rows, s.row())
		}
		if s.LeafNodeType == "It" && s.State == "passed" {
			passed++
		}
	}
	slices.Sort(rows)
	fmt.Printf("%s\n\n%d of %d specs passed.\n", strings.Join(rows, "\n"), passed, len(rows))
	return passed
}
