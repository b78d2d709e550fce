package commands

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

func servicesCommand() cli.Command {
	o := new(Target)
	return o.command(cli.Command{
		Use:     "services [NAME…]",
		Summary: "show the members, endpoints, streams, tiers and problems of services",
		Intro:   servicesIntro,
		Ending:  servicesEnding,
		Run:     func(ctx context.Context, p cli.Process) error { return runServices(ctx, p, o) },
	}, func(s *pflag.FlagSet) { o.pageFlags(s, pageTimeout, pageTimeoutUsage) })
}

func runServices(ctx context.Context, p cli.Process, o *Target) error {
	var names []serviceName
	for _, arg := range p.Args {
		name, ok := parseServiceName(arg)
		if !ok {
			return cli.Usagef("%q is not a valid service name: use NAME, NAMESPACE/NAME or NAME.NAMESPACE", arg)
		}
		names = append(names, name)
	}
	shown, others, err := readEach(ctx, p, o, "/debug/services", func(page *[]adminapi.Service) facts {
		list, _ := chosen(*page, names)
		return serviceFacts(list)
	})
	if err != nil {
		return err
	}
	list, missing := chosen(*shown.Value, names)
	page := &adminapi.ServicesOutput{
		Time: shown.At, Gateway: shown.Replica, Services: list, Others: others, Unchecked: shown.Unchecked(p.Build),
	}
	err = o.screen(p).show(page.Time, page.Gateway, page,
		func() (string, []byte) { return servicesTable(page, len(names) > 0) })
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return fmt.Errorf("not on the page of %s: %s\n"+
			"  The page contains federated and mirrored services, services that proxies watch, "+
			"and services with problems. For other services, use isthmus get",
			shown.Replica, strings.Join(missing, ", "))
	}
	return nil
}

type serviceName struct{ typed, namespace, name string } // an empty namespace matches any namespace

// parseServiceName parses NAME, NAMESPACE/NAME, NAME.NAMESPACE, and the name that applications
// dial: [INSTANCE.]NAME.NAMESPACE.svc.DOMAIN[:PORT].
func parseServiceName(typed string) (serviceName, bool) {
	n := serviceName{typed: typed}
	dialled, _, _ := strings.Cut(typed, ":")
	if namespace, name, ok := strings.Cut(dialled, "/"); ok {
		n.namespace = namespace
		n.name = name
		return n, namespace != "" && name != "" && !strings.Contains(name, "/")
	}
	labels := strings.Split(dialled, ".")
	if i := slices.Index(labels, "svc"); i >= 2 {
		labels = labels[i-2 : i]
	}
	n.name = labels[0]
	if len(labels) > 1 {
		n.namespace = labels[1]
	}
	return n, len(labels) <= 2 && !slices.Contains(labels, "")
}

// matches reports whether n names the given service. The service has the form NAMESPACE/NAME.
func (n serviceName) matches(service string) bool {
	namespace, name, _ := strings.Cut(service, "/")
	return name == n.name && (n.namespace == "" || n.namespace == namespace)
}

// chosen returns the services that match at least one of the names, and the names that match no
// service. If no names are given, all services are returned.
func chosen(all []adminapi.Service, names []serviceName) (list []adminapi.Service, missing []string) {
	if len(names) == 0 {
		return append([]adminapi.Service{}, all...), nil
	}
	list = []adminapi.Service{}
	for _, e := range all {
		if slices.ContainsFunc(names, func(n serviceName) bool { return n.matches(e.Service) }) {
			list = append(list, e)
		}
	}
	for _, n := range names {
		if !slices.ContainsFunc(list, func(e adminapi.Service) bool { return n.matches(e.Service) }) {
			missing = append(missing, Printable(n.typed))
		}
	}
	return list, missing
}

// serviceFacts returns the facts that replicas should agree on. The facts are the members of
// services, and the number of endpoints that each member offers for a watched port. perReplica is
// true for facts that depend on which proxies are connected to the replica.
func serviceFacts(services []adminapi.Service) facts {
	f := facts{}
	for _, e := range services {
		var members []string
		for _, m := range e.Members {
			text := m.Cluster
			if m.Reason != "" {
				text += " (" + m.Reason + ")"
			}
			members = append(members, text)
		}
		slices.Sort(members)
		kind := kindOf(&e)
		f[e.Service] = fact{"of " + strings.Join(members, ", "), kind == "" || kind == "plain"}
		for _, p := range e.Ports {
			var offers []string
			for _, m := range p.Members {
				offers = append(offers, fmt.Sprintf("%s %d", m.Cluster, m.Endpoints))
			}
			slices.Sort(offers)
			f[fmt.Sprintf("%s port %d", e.Service, p.Port)] = fact{strings.Join(offers, ", "), true}
		}
	}
	return f
}

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
	writeList(&b, "Where the other replicas differ", lines, limit)
	return text.Count(len(o.Services), "service", "services") + summary, b.Bytes()
}

func serviceRow(e *adminapi.Service, problems int) []any {
	wrong := cell{text: strconv.Itoa(problems)}
	if problems > 0 {
		wrong.color = red
	}
	tiers := cell{text: tiersInUse(e)}
	if spilled(e) {
		tiers.color = yellow
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

func tiersInUse(e *adminapi.Service) string {
	var sets []string
	for _, c := range e.Clients {
		if set := inUse(&c); !slices.Contains(sets, set) {
			sets = append(sets, set)
		}
	}
	return strings.Join(sets, " | ")
}

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

func serviceTroubles(e *adminapi.Service) []string {
	list := prefixed(e.Service, e.Problems)
	for _, f := range e.Failures {
		list = append(list, e.Service+": "+f.String())
	}
	for _, m := range e.Members {
		if m.Reason != "" {
			list = append(list,
				fmt.Sprintf("%s: %s of %s is not served: %s", e.Service, m.Service, m.Cluster, m.Reason))
		}
	}
	for _, p := range e.Ports {
		for _, m := range p.Members {
			about := fmt.Sprintf("%s: port %d: ", e.Service, p.Port)
			if m.Conflicts > 0 {
				list = append(list,
					withExamples(about+text.Count(m.Conflicts, "address", "addresses")+" of "+m.Cluster+
						" offered by another member too", m.ConflictsWith))
			}
			if m.Refused > 0 {
				list = append(list,
					withExamples(about+text.Count(m.Refused, "address", "addresses")+" of "+m.Cluster+" refused",
						m.Refusals))
			}
		}
	}
	return list
}

func writeClients(e *adminapi.Service, b *bytes.Buffer, now time.Time) {
	if e.Preference == nil {
		return
	}
	fmt.Fprintf(b, "%s prefers %s (min-ready %s, return-after %s, return-over %s):\n", Printable(e.Service),
		Printable(e.Preference.Prefer),
		Printable(e.Preference.MinReady), Printable(e.Preference.ReturnAfter), Printable(e.Preference.ReturnOver))
	if len(e.Clients) == 0 {
		b.WriteString("  no clients\n")
		return
	}
	var t cells
	t.row("PORT", "ZONE", "INSTANCE", "NODE", "IN USE", "AVAILABLE", "SINCE", "WHY", "RETURN")
	for _, c := range e.Clients {
		t.row(strconv.Itoa(int(c.Port)), c.Zone, c.Instance, c.Node, inUse(&c), available(&c),
			age(now, c.Since), c.Why, failBack(&c, now))
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

func failBack(c *adminapi.Clients, now time.Time) string {
	if c.Next != nil {
		return "in " + max(0, c.Next.Sub(now)).Round(time.Second).String()
	}
	return c.WaitsFor
}

const servicesIntro = `isthmus services shows federated and mirrored services, services that proxies watch, and
services with problems. With NAMEs, the command shows only those services, with details.

Usage: isthmus services [NAME…] [FLAGS]

NAME is NAME in any namespace, NAMESPACE/NAME, NAME.NAMESPACE, or the name that
applications dial: NAME.NAMESPACE.svc.DOMAIN:PORT.`

const servicesEnding = `The table:
  KIND        import (the Service of a ServiceImport), federated, mirror (of a Service of
              another cluster), or plain
  MEMBERS     the clusters of the service's members
  ENDPOINTS   number of ready endpoints of each member, for each port that proxies watch
  STREAMS     number of streams of proxies that watch the service
  TIERS       tiers of the service's preference that clients use; "|" separates the tiers
              of clients in different zones
  PROBLEMS    number of problems, which a list below explains
For a named service with a preference, a table of its clients follows:
  IN USE      the tiers that these clients use
  AVAILABLE   all tiers, with the number of ready endpoints
  WHY         why these tiers are in use
  RETURN      the condition for fewer tiers, or the next time at which endpoints leave

If there are several replicas, the command shows the page of the first one that responds. It
also shows where the other replicas differ in services, members, and endpoints of ports that
proxies of both replicas watch.

-o json prints one object per line. go doc isthmus/internal/adminapi.ServicesOutput
explains its fields.

The exit code is 1 if no replica can be queried, or if the page lacks a named service.

Examples:
  isthmus services
  isthmus services shop/web-federated --context west
  isthmus services -o json | jq -r '.services[] | select(.problems) | .service'`
