package commands

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

// servicesTable has a line for each service, what is wrong with them and, if they are named, what their clients use.
func servicesTable(o *adminapi.ServicesOutput, named bool) (string, []byte) {
	var b bytes.Buffer
	var problems []string
	var t cells
	t.row("SERVICE", "KIND", "MEMBERS", "ENDPOINTS", "STREAMS", "TIERS", "PROBLEMS")
	for _, e := range o.Services {
		list := serviceTroubles(&e)
		problems = append(problems, list...)
		t.row(serviceRow(&e, len(list))...)
	}
	t.writeUnder(&b, "")
	limit := maxLines
	if named {
		limit = len(problems)
		for _, e := range o.Services {
			writeClients(&e, &b, o.Time)
		}
	}
	writeList(&b, "Problems", problems, limit)
	summary, lines := compared(o.Others, o.Unchecked)
	writeList(&b, "Where the other gateways differ", lines, limit)
	return text.Count(len(o.Services), "service", "services") + summary, b.Bytes()
}

func serviceRow(e *adminapi.Service, problems int) []any {
	wrong := cell{text: strconv.Itoa(problems)}
	if problems > 0 {
		wrong.colour = red
	}
	tiers := cell{text: tiersInUse(e)}
	if spilled(e) {
		tiers.colour = yellow
	}
	return []any{e.Service, kindOf(e), memberNames(e), endpointsOf(e), e.Streams, tiers, wrong}
}

func kindOf(e *adminapi.Service) string {
	switch {
	case e.Imported:
		return "import"
	case e.Federated:
		return "federated"
	case len(e.Members) == 0:
		return ""
	case len(e.Members) == 1 && e.Members[0].Cluster == "local":
		return "plain"
	}
	return "mirror"
}

func memberNames(e *adminapi.Service) string {
	var clusters []string
	for _, m := range e.Members {
		clusters = append(clusters, m.Cluster)
	}
	return text.Some(clusters, maxNames)
}

// endpointsOf counts those of each port by cluster.
func endpointsOf(e *adminapi.Service) string {
	var ports []string
	for _, p := range e.Ports {
		var clusters []string
		for _, m := range p.Members {
			clusters = append(clusters, fmt.Sprintf("%s %d", m.Cluster, m.Endpoints))
		}
		ports = append(ports, strconv.Itoa(int(p.Port))+": "+cmp.Or(text.Some(clusters, maxNames), "none"))
	}
	if more := len(ports) - 3; more > 0 {
		ports = append(ports[:3], text.Count(more, "more port", "more ports"))
	}
	return strings.Join(ports, "; ")
}

// tiersInUse is what the clients use, each set once.
func tiersInUse(e *adminapi.Service) string {
	var sets []string
	for _, c := range e.Clients {
		if set := inUse(&c); !slices.Contains(sets, set) {
			sets = append(sets, set)
		}
	}
	return strings.Join(sets, " | ")
}

// spilled reports whether any clients use more than the first tier.
func spilled(e *adminapi.Service) bool {
	return slices.ContainsFunc(e.Clients, func(c adminapi.Clients) bool { return len(c.Tiers) > 1 && c.Tiers[1].InUse })
}

func inUse(c *adminapi.Clients) string {
	var names []string
	for _, t := range c.Tiers {
		if t.InUse {
			names = append(names, t.Tier)
		}
	}
	return strings.Join(names, ", ")
}

// serviceTroubles returns all that is wrong with the service.
func serviceTroubles(e *adminapi.Service) []string {
	list := prefixed(e.Service, e.Problems)
	for _, f := range e.Failures {
		list = append(list, e.Service+": "+f.String())
	}
	for _, m := range e.Members {
		if m.Reason != "" {
			list = append(list, fmt.Sprintf("%s: %s of %s is not served: %s", e.Service, m.Service, m.Cluster, m.Reason))
		}
	}
	for _, p := range e.Ports {
		for _, m := range p.Members {
			about := fmt.Sprintf("%s: port %d: ", e.Service, p.Port)
			if m.Conflicts > 0 {
				list = append(list, withExamples(about+text.Count(m.Conflicts, "address", "addresses")+" of "+m.Cluster+" offered by another member too", m.ConflictsWith))
			}
			if m.Refused > 0 {
				list = append(list, withExamples(about+text.Count(m.Refused, "address", "addresses")+" of "+m.Cluster+" refused", m.Refusals))
			}
		}
	}
	return list
}

// writeClients appends what the service's clients use, if they don't simply get
// everything.
func writeClients(e *adminapi.Service, b *bytes.Buffer, now time.Time) {
	if e.Preference == nil {
		return
	}
	fmt.Fprintf(b, "%s prefers %s (min-ready %s, return-after %s, return-over %s):\n", Printable(e.Service), Printable(e.Preference.Prefer),
		Printable(e.Preference.MinReady), Printable(e.Preference.ReturnAfter), Printable(e.Preference.ReturnOver))
	if len(e.Clients) == 0 {
		b.WriteString("  no clients\n")
		return
	}
	var t cells
	t.row("PORT", "ZONE", "INSTANCE", "NODE", "IN USE", "AVAILABLE", "SINCE", "WHY", "RETURN")
	for _, c := range e.Clients {
		t.row(strconv.Itoa(int(c.Port)), c.Zone, c.Instance, c.Node, inUse(&c), available(&c),
			age(now, c.Since), c.Why, returns(&c, now))
	}
	t.write(b, "  ")
	if e.MoreClients > 0 {
		fmt.Fprintf(b, "  … and %d more kinds of clients\n", e.MoreClients)
	}
}

func available(c *adminapi.Clients) string {
	var tiers []string
	for _, t := range c.Tiers {
		text := fmt.Sprintf("%s %d", t.Tier, t.Ready)
		if t.Known > 0 {
			text += fmt.Sprintf(" of %d", t.Known)
		}
		tiers = append(tiers, text)
	}
	return strings.Join(tiers, ", ")
}

func returns(c *adminapi.Clients, now time.Time) string {
	if c.Next != nil {
		return "in " + max(0, c.Next.Sub(now)).Round(time.Second).String()
	}
	return c.WaitsFor
}
