package commands

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"isthmus/internal/adminapi"
)

// manyPage has 100 addresses that are served and one, the last, that is not.
func manyPage(n int) adminapi.Explanation {
	p := adminapi.Explanation{Authority: "web:80", Defined: true, Verdicts: map[string]int{served: n, "not-ready": 1},
		More: 7}
	for i := range n {
		p.Addresses = append(p.Addresses,
			adminapi.ExplainedAddress{Cluster: "east", Address: fmt.Sprint("10.0.0.", i), Verdict: served})
		p.Held = append(p.Held, adminapi.HeldView{Destination: "web"})
	}
	p.Addresses = append(p.Addresses,
		adminapi.ExplainedAddress{Cluster: "east", Address: "10.9.9.9", Verdict: "not-ready"})
	p.Members = []adminapi.ExplainedMember{{Cluster: "east", State: "ready"}}
	return p
}

// TestExplainPanickedDefinition: a Service whose definition panics is not reported as missing.
func TestExplainPanickedDefinition(t *testing.T) {
	const missing = "no such Service"
	explain := func(f ...adminapi.Failure) string {
		x := adminapi.Explanation{Authority: "web:80", Failures: f}
		s := &explainState{ExplainOutput: adminapi.ExplainOutput{Time: noon, Explanation: x}}
		headline, lines := s.table()
		return headline + "\n" + string(lines)
	}
	text := explain(adminapi.Failure{Where: "definition", Panics: 1, Panic: "boom"})
	if strings.Contains(text, missing) || !strings.HasPrefix(text, "web:80 (not defined): ") ||
		!strings.Contains(text, "new streams are refused until a retry succeeds") || !strings.Contains(text, "boom") {
		t.Errorf("the definition panicked:\n%s", text)
	}
	for _, text := range []string{explain(), explain(adminapi.Failure{Where: "service", Panics: 1})} {
		if !strings.Contains(text, missing) {
			t.Errorf("there is no Service:\n%s", text)
		}
	}
}

// TestExplainMany: of many addresses those that are not served come first, and the rest is
// counted. Who asks for one address gets all that have it.
func TestExplainMany(t *testing.T) {
	s := &explainState{ExplainOutput: adminapi.ExplainOutput{Time: noon, Explanation: manyPage(100)}}
	headline, lines := s.table()
	if headline != "web:80: 100 of 101 addresses served" {
		t.Errorf("%q", headline)
	}
	text := withoutColours.Replace(string(lines))
	for _, want := range []string{
		"Addresses (100 served, 1 not-ready):\n", "WHY\n  east     -      10.9.9.9   not-ready ",
		"  … and 61 more: --address IP shows one, -o json 101 of them\n",
		"  … and 80 more: -o json lists 100 of them\n", "Client: any, in no zone (--node or --token names one)\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if n := strings.Count(text, "clients get it"); n != maxAddressLines-1 {
		t.Errorf("%d addresses that are served", n)
	}
	s.address = netip.MustParseAddr("10.0.0.1")
	if _, lines := s.table(); strings.Count(string(lines), "clients get it") != 100 {
		t.Errorf("some are missing:\n%s", lines)
	}
}
