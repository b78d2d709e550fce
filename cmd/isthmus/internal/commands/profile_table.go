package commands

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"github.com/linkerd/linkerd2-proxy-api/go/meta"
)

// table has a line for each field that has a value, and one for each route.
func (p *profileState) table() (string, []byte) {
	headline := "no profile"
	switch {
	case p.address.IsValid():
		headline = "endpoint " + p.address.String()
	case p.GetFullyQualifiedName() != "":
		headline = "service " + p.GetFullyQualifiedName()
	case p.GetRetryBudget() != nil:
		headline = "profile"
	default:
		return headline, nil
	}
	var t cells
	t.row("opaque", yesOrNo(p.GetOpaqueProtocol()))
	t.row("retries", retriesText(p.GetRetryBudget()))
	if e := p.GetEndpoint(); p.address.IsValid() {
		t.row("endpoint", fmt.Sprintf("%s weight %d", p.address, e.GetWeight()))
		t.row("labels", labelsText(e.GetMetricLabels()))
		t.row("identity", peerOf(e))
		t.row("hints", hintsOf(e))
	} else {
		t.row("service", referenceText(p.GetParentRef()))
		t.row("profile", referenceText(p.GetProfileRef()))
	}
	for _, o := range p.GetDstOverrides() {
		t.row("overrides", fmt.Sprintf("%s weight %d", o.GetAuthority(), o.GetWeight()))
	}
	var b bytes.Buffer
	t.write(&b, "  ")
	writeRoutes(&b, p.GetRoutes())
	return headline, b.Bytes()
}

func writeRoutes(b *bytes.Buffer, routes []*pb.Route) {
	var t cells
	t.row("ROUTE", "RETRY", "TIMEOUT", "CONDITION", "RESPONSES")
	for _, r := range routes {
		var classes []string
		for _, c := range r.GetResponseClasses() {
			outcome := " succeeds"
			if c.GetIsFailure() {
				outcome = " fails"
			}
			classes = append(classes, responseCondition(c.GetCondition(), 0)+outcome)
		}
		timeout := ""
		if d := r.GetTimeout(); d != nil {
			timeout = d.AsDuration().String()
		}
		t.row(r.GetMetricsLabels()["route"], yesOrNo(r.GetIsRetryable()), timeout, requestCondition(r.GetCondition(), 0), strings.Join(classes, ", "))
	}
	t.writeUnder(b, "")
}

func labelsText(labels map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		list = append(list, name+"="+labels[name])
	}
	return strings.Join(list, " ")
}

func yesOrNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// retriesText returns the budget in one line. There may be none.
func retriesText(b *pb.RetryBudget) string {
	if b == nil {
		return "-"
	}
	return fmt.Sprintf("%v%% of the requests of the last %s, and %d a second", 100*b.GetRetryRatio(), b.GetTtl().AsDuration(), b.GetMinRetriesPerSecond())
}

// referenceText returns the object in one line. There may be none.
func referenceText(m *meta.Metadata) string {
	r := m.GetResource()
	switch {
	case r.GetName() == "":
		return "none"
	case r.GetPort() != 0:
		return fmt.Sprintf("%s/%s port %d", r.GetNamespace(), r.GetName(), r.GetPort())
	}
	return r.GetNamespace() + "/" + r.GetName()
}
