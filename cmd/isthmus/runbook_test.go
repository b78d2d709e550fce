package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"isthmus/cmd/isthmus/internal/check"
	"isthmus/federation"
	"isthmus/internal/adminapi"
	"isthmus/local/exports/plan"
)

// runbook returns the text of docs/operations.md.
func runbook(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRunbookHasAlerts checks that the runbook has exactly one entry for each alert. Each entry has
// the meaning of the alert, its impact and an action.
func TestRunbookHasAlerts(t *testing.T) {
	rules, err := os.ReadFile("../../manifests/alerts/isthmus.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var alerts, entries []string
	for _, m := range regexp.MustCompile(`(?m)^ *- alert: (\w+)$`).FindAllStringSubmatch(string(rules), -1) {
		alerts = append(alerts, m[1])
	}
	for _, section := range strings.Split(runbook(t), "\n### ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		if !strings.HasPrefix(name, "Isthmus") {
			continue
		}
		entries = append(entries, name)
		text, _, _ = strings.Cut(text, "\n## ")
		for _, part := range []string{"- **Meaning**", "- **Impact**", "- **Action**"} {
			if strings.Count("\n"+text, "\n"+part) != 1 {
				t.Errorf("the entry of %s does not have %q once", name, part)
			}
		}
	}
	if n := strings.Count(string(rules), "alert:"); n == 0 || n != len(alerts) {
		t.Errorf("%d alerts, but only %d can be parsed", n, len(alerts))
	}
	slices.Sort(alerts)
	slices.Sort(entries)
	if !slices.Equal(alerts, entries) {
		t.Errorf("the alerts are\n%q\nbut the runbook has\n%q", alerts, entries)
	}
}

// TestRunbookHasWords checks that the runbook explains each word that isthmus check, clusters and
// explain print. The runbook must not name verdicts or checks that do not exist.
func TestRunbookHasWords(t *testing.T) {
	text := runbook(t)
	verdicts := []string{}
	for v := federation.Served; v <= federation.OtherFamily; v++ {
		verdicts = append(verdicts, v.String())
	}
	states := []string{
		string(
			adminapi.Ready,
		), string(adminapi.Pending), string(adminapi.Unreachable), string(adminapi.Stale), string(adminapi.Rejected),
		federation.Unlinked.String(),
	}
	for head, want := range map[string][]string{
		"| check | problem |": append(
			slices.Clone(check.Checks), "gateway", "version", "replicas",
		), // the last words belong to isthmus explain
		"| verdict | reason |":   verdicts,
		"| STATE | meaning |":    states,
		"| STANDING | meaning |": {adminapi.InService, adminapi.LastResort, adminapi.Withdrawn},
		"| STATE of a gateway | meaning |": {
			adminapi.GatewayAlive, adminapi.GatewayDead, adminapi.GatewayUnknown, adminapi.GatewayNotProbed,
			adminapi.GatewayOutside, adminapi.GatewayIPv6Off,
		},
	} {
		got := firstCells(t, text, head)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("the table %q has\n%q\nwant\n%q", head, got, want)
		}
	}
}

// TestExportStatesAreDocumented checks that docs/exports.md explains each state of an export, and
// no other.
func TestExportStatesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/exports.md")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		adminapi.ExportWouldBeWritten,
		adminapi.ExportBeingWritten,
		adminapi.ExportFailed,
		adminapi.ExportChangedBack,
	}
	for _, s := range []plan.State{
		plan.Written,
		plan.Kept,
		plan.OnHold,
		plan.LeftToLinkerd,
		plan.Taken,
		plan.Waiting,
		plan.NotAllowed,
		plan.NameRefused,
		plan.NoPort,
		plan.OverNumber,
		plan.HeadlessJoins,
		plan.Unset,
		plan.Invalid,
		plan.NoImports,
	} {
		want = append(want, string(s))
	}
	got := firstCells(t, string(text), "| STATE | means | do |\n|---|---|---|")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("../../docs/exports.md has the states\n%q\nwant\n%q", got, want)
	}
}

// firstCells returns the quoted words in the first cell of each row of the table with the given
// head.
func firstCells(t *testing.T, page, head string) (words []string) {
	t.Helper()
	_, rest, found := strings.Cut(page, "\n"+head+"\n")
	if !found {
		t.Fatalf("the table %q does not exist", head)
	}
	for line := range strings.SplitSeq(rest, "\n") {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cell, _, _ := strings.Cut(line[1:], "|")
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
			words = append(words, m[1])
		}
	}
	return words
}
