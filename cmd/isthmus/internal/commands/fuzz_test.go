package commands

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"

	"isthmus/cmd/isthmus/internal/check"
	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

// firstPage returns the first page of testdata/commands/VERB.
func firstPage(t testing.TB, verb string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/commands/" + verb)
	if err != nil {
		t.Fatal(err)
	}
	_, page, _ := strings.Cut(string(text), "\npage ")
	_, page, _ = strings.Cut(page, "\n")
	page, _, _ = strings.Cut(page, "\n----")
	return page
}

// content is the output of a command for a page.
type content struct {
	output any
	table  func() (string, []byte)
	err    func() error // the error of explain
}

// contentOf reads a page like a command.
func contentOf(verb, page, node string, address netip.Addr) (c content, err error) {
	switch verb {
	case "clusters":
		o := &adminapi.ClustersOutput{Time: noon}
		return content{o, func() (string, []byte) { return clustersTable(o) }, nil},
			json.Unmarshal([]byte(page), &o.Clusters)
	case "services":
		o := &adminapi.ServicesOutput{Time: noon}
		return content{o, func() (string, []byte) { return servicesTable(o, true) }, nil},
			json.Unmarshal([]byte(page), &o.Services)
	case "exports":
		x := &exportsState{adminapi.ExportsOutput{Time: noon}}
		return content{&x.ExportsOutput, x.table, nil}, json.Unmarshal([]byte(page), &x.Exports)
	}
	e := &explainState{ExplainOutput: adminapi.ExplainOutput{Time: noon}, node: node, address: address}
	err = json.Unmarshal([]byte(page), &e.Explanation)
	return content{e.ExplainOutput, e.table, e.unserved}, err
}

// FuzzPages checks that no page makes a command print characters that the terminal interprets.
func FuzzPages(f *testing.F) {
	hostile := strings.NewReplacer("shop", `\u001b]0;\u009b\u202e\n`, "east", "\u009b\U000e0001", "dial", `\u0000`,
		"Pod", `\u001b`)
	for _, verb := range []string{"clusters", "services", "explain", "exports"} {
		f.Add(verb, firstPage(f, verb), "n1", true)
		f.Add(verb, hostile.Replace(firstPage(f, verb)), "\x1b[2J", false)
	}
	f.Fuzz(func(t *testing.T, verb, page, node string, one bool) {
		var address netip.Addr
		if one {
			address = netip.MustParseAddr("10.0.0.1")
		}
		c, err := contentOf(verb, page, node, address)
		if err != nil {
			return
		}
		checkHarmless(t, c)
		if c.err != nil {
			if err := c.err(); err != nil &&
				strings.ContainsFunc(strings.ReplaceAll(err.Error(), "\n  ", ""), text.Unprintable) {
				t.Fatalf("%q", err)
			}
		}
	})
}

// checkHarmless checks that the output for a content contains no characters that a terminal
// interprets.
func checkHarmless(t *testing.T, c content) {
	t.Helper()
	for _, asJSON := range []bool{true, false} {
		var b bytes.Buffer
		if err := (&screen{w: &b, asJSON: asJSON}).show(noon, "web:80", c.output, c.table); err != nil {
			return // JSON can't represent this year
		}
		if strings.ContainsFunc(strings.ReplaceAll(b.String(), "\n", ""), text.Unprintable) {
			t.Fatalf("%q", b.String())
		}
		if asJSON && !json.Valid(b.Bytes()) {
			t.Fatalf("the output is not JSON: %s", b.String())
		}
	}
}

// FuzzCheckPage checks that no pages of two replicas make check print characters that the terminal
// interprets.
func FuzzCheckPage(f *testing.F) {
	clusters, _ := goodPages()
	good := jsonOf(clusters)
	spoiled(&clusters)
	f.Add(jsonOf(clusters), good, `[]`)
	f.Add(`{"clusters":[{"cluster":"\u001b","secret":"\u202e",`+
		`"api":{"podNetworks":{"cidrs":["x","10.0.0.0/8"]},"clock":{"aheadSeconds":1e300}}}]}`,
		`{}`, `[{"service":"\u001b","members":[{"reason":"\u001b"}]}]`)
	f.Fuzz(func(t *testing.T, one, two, services string) {
		var answers []Answer[check.Input]
		for _, text := range []string{one, two} {
			seen := new(check.Input)
			a := Answer[check.Input]{Replica: "g", Value: seen, Origin: thisFormat}
			a.Err = errors.Join(json.Unmarshal([]byte(text), &seen.Clusters),
				json.Unmarshal([]byte(services), &seen.Services))
			answers = append(answers, a)
		}
		s := newCheckState(adminapi.CheckedReplicas)
		s.marks = asciiMarks
		s.merge(answers, testBuild)
		s.finish()
		line, err := JSONLine(s.CheckOutput)
		if err != nil || !json.Valid(line) {
			t.Fatalf("%v: %s", err, line)
		}
		for _, printed := range []string{withoutColors.Replace(s.table()), string(line)} {
			if strings.ContainsFunc(strings.ReplaceAll(printed, "\n", ""), text.Unprintable) {
				t.Errorf("%q", printed)
			}
		}
	})
}
