package client

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"isthmus/internal/adminapi"
)

// table has a line for each field that has a value, and one for each route.
func (p *profile) table() (string, []byte) {
	headline := "no profile"
	switch {
	case p.Endpoint != nil:
		headline = "endpoint " + p.Endpoint.Address.String()
	case p.Name != "":
		headline = "service " + p.Name
	case p.Budget != nil:
		headline = "profile"
	default:
		return headline, nil
	}
	var t cells
	row := func(name, value string) { t.row(name, value) }
	row("opaque", yesOrNo(p.Opaque))
	row("retries", retriesText(p.Budget))
	if p.Endpoint != nil {
		endpointRows(p.Endpoint, row)
	} else {
		row("service", referenceText(p.Service))
		row("profile", referenceText(p.Profile.Profile))
	}
	for _, o := range p.Overrides {
		row("overrides", fmt.Sprintf("%s weight %d", o.Authority, o.Weight))
	}
	var b bytes.Buffer
	t.write(&b, "  ")
	writeRoutes(&b, p.Routes)
	return headline, b.Bytes()
}

func writeRoutes(b *bytes.Buffer, routes []adminapi.Route) {
	var t cells
	t.row("ROUTE", "RETRY", "TIMEOUT", "CONDITION", "RESPONSES")
	for _, r := range routes {
		var classes []string
		for _, c := range r.Responses {
			outcome := " succeeds"
			if c.Failure {
				outcome = " fails"
			}
			classes = append(classes, c.Condition+outcome)
		}
		t.row(r.Name, yesOrNo(r.Retryable), r.Timeout, r.Condition, strings.Join(classes, ", "))
	}
	t.writeUnder(b, "")
}

// endpointRows adds the lines of an endpoint in the table of a profile.
func endpointRows(e *adminapi.Endpoint, row func(name, value string)) {
	row("endpoint", fmt.Sprintf("%s weight %d", e.Address, e.Weight))
	var labels []string
	for _, name := range slices.Sorted(maps.Keys(e.Labels)) {
		labels = append(labels, name+"="+e.Labels[name])
	}
	row("labels", strings.Join(labels, " "))
	row("identity", peerOf(e))
	row("hints", hintsOf(e))
}

func yesOrNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// retriesText returns the budget in one line. There may be none.
func retriesText(b *adminapi.RetryBudget) string {
	if b == nil {
		return "-"
	}
	return fmt.Sprintf("%v%% of the requests of the last %s, and %d a second", 100*b.Ratio, b.TTL, b.MinPerSecond)
}

// referenceText returns the object in one line. There may be none.
func referenceText(r *adminapi.ObjectReference) string {
	switch {
	case r == nil:
		return "none"
	case r.Port != 0:
		return fmt.Sprintf("%s/%s port %d", r.Namespace, r.Name, r.Port)
	}
	return r.Namespace + "/" + r.Name
}
