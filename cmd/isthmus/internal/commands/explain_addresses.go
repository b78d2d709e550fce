package commands

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

// maxAddressLines is how many addresses are shown of a service of many.
const maxAddressLines = 40

func (s *explainState) writeAddresses(b *bytes.Buffer) {
	list := slices.Clone(s.Addresses)
	title, more := "Addresses", 0
	if n := totalOf(&s.Explanation); len(list) > maxAddressLines && !s.address.IsValid() {
		slices.SortStableFunc(list, func(a, b adminapi.ExplainedAddress) int { return cmp.Compare(rankOf(&a), rankOf(&b)) })
		list, more = list[:maxAddressLines], n-maxAddressLines
		title = fmt.Sprintf("Addresses (%s)", countsOf(&s.Explanation))
	}
	var t cells
	t.row("CLUSTER", "SLICE", "ADDRESS", "VERDICT", "FOR", "ZONE", "TIER", "CHANGED", "WHY")
	for _, a := range list {
		t.row(a.Cluster, a.Slice, a.Address, cell{a.Verdict, verdictColour(a.Verdict)}, standsFor(&a),
			a.Zone, a.Tier, age(s.Time, a.Changed), whyOf(&a))
	}
	t.writeUnder(b, Printable(title)+":\n")
	if more > 0 {
		fmt.Fprintf(b, "  … and %d more: --address IP shows one, -o json %d of them\n", more, len(s.Addresses))
	}
}

// standsFor is what has the address. Of a gateway the page has neither slice nor target.
func standsFor(a *adminapi.ExplainedAddress) string {
	if a.Slice == "gateways" {
		return "gateway of " + a.Cluster
	}
	return a.Target
}

// rankOf orders addresses of which not all are shown.
func rankOf(a *adminapi.ExplainedAddress) int {
	switch a.Verdict {
	case served:
		return 1
	case behindGateway:
		return 2
	}
	return 0
}

// whyOf is the verdict in a sentence, with what is known about it.
func whyOf(a *adminapi.ExplainedAddress) string {
	why := cmp.Or(verdicts[a.Verdict].why, a.Verdict)
	switch a.Verdict {
	case "other-node":
		why += ": " + cmp.Or(a.Node, "its node is not known")
	case "hinted-to-other-nodes":
		why += ": " + text.Some(a.NodeHints, maxNames)
	case "hinted-to-other-zones":
		why += ": " + text.Some(a.Hints, maxNames)
	case "other-instance":
		why += ": " + cmp.Or(a.Hostname, "it has none")
	}
	if a.Detail != "" {
		why += ": " + a.Detail
	}
	return why
}

func verdictColour(verdict string) colour {
	switch verdict {
	case served:
		return green
	case behindGateway, "tier-not-in-use", "hinted-to-other-nodes", "hinted-to-other-zones",
		"other-node", "other-instance", "other-address-preferred", "just-changed":
		return plain
	}
	return red
}

// countsOf has how many addresses have each verdict, the most frequent first.
func countsOf(p *adminapi.Explanation) string {
	var list []string
	for _, v := range byCount(p) {
		list = append(list, fmt.Sprintf("%d %s", p.Verdicts[v], v))
	}
	return strings.Join(list, ", ")
}

func byCount(p *adminapi.Explanation) []string {
	return slices.SortedFunc(maps.Keys(p.Verdicts), func(a, b string) int {
		return cmp.Or(cmp.Compare(p.Verdicts[b], p.Verdicts[a]), strings.Compare(a, b))
	})
}
