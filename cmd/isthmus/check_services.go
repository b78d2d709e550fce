package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"isthmus/clusterstore"
	"isthmus/clusterstore/check"
	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/internal/adminapi"
	"isthmus/local"
)

// checked is what the checks of a gateway are about.
type checked struct {
	config check.Config // without links
	here   *local.Local
	store  *clusterstore.Store
	table  *federation.Table
	writer sliceWriter
}

var errNotListed = errors.New("they have not been listed yet")

// checkServices reports what is wrong with federated and mirrored services.
func (g *checked) checkServices(report *check.Report) {
	c := serviceChecks{report, make(map[string]bool)}
	federated := 0
	definitions := g.table.Definitions()
	linked := make(map[federation.ClusterName]bool)
	for _, l := range g.store.Status() {
		linked[federation.ClusterName(l.Cluster)] = true
	}
	for id, d := range definitions {
		if len(remoteMembers(d)) == 0 && !d.Federated {
			continue
		}
		federated++
		if own := g.here.Service(id); own != nil {
			c.ports(id, own, d, g.memberPorts)
			c.preferred(id, own, d, linked)
		}
	}
	c.members(g.table.Unserved(), definitions)
	c.addresses(g.table.Watched())
	for _, p := range g.here.Problems() {
		for _, problem := range p.Problems {
			c.add(check.Definitions, p.Service, check.Warning, problem, "correct the Service's annotations and labels; docs/links.md and docs/preference.md have what they may be")
		}
	}
	c.fine(check.Members, services(federated))
	c.fine(check.Ports, "all members have the ports that are asked for")
	c.fine(check.Addresses, "no address that proxies watch is offered twice")
	c.fine(check.Definitions, "all annotations and labels can be used")
}

// memberPorts returns the ports of a member's Service; nil: it is not known.
func (g *checked) memberPorts(m federation.Member) *cluster.Service {
	if m.Cluster == federation.Local {
		return g.here.Service(m.Service)
	}
	if c, state := g.store.Followed(m.Cluster); c != nil && (state == cluster.Ready || state == cluster.Stale) {
		return c.Service(m.Service)
	}
	return nil
}

func services(n int) string {
	switch n {
	case 0:
		return "there are no federated or mirrored services"
	case 1:
		return "1 federated or mirrored service: all members serve"
	}
	return fmt.Sprintf("%d federated or mirrored services: all members serve", n)
}

func remoteMembers(d *federation.Definition) []federation.Member {
	return slices.DeleteFunc(slices.Clone(d.Members), func(m federation.Member) bool { return m.Cluster == federation.Local })
}

// serviceChecks are the checks of services. Those with a result that is not OK are in bad.
type serviceChecks struct {
	report *check.Report
	bad    map[string]bool
}

func (c *serviceChecks) add(name, service string, level check.Level, text, hint string) {
	c.bad[name] = true
	c.report.Add(check.Result{Section: check.SectionServices, Check: name, Object: service, Level: level, Text: text, Hint: hint})
}

// fine reports that nothing is wrong, if so.
func (c *serviceChecks) fine(name, text string) {
	if !c.bad[name] {
		c.report.Add(check.Result{Section: check.SectionServices, Check: name, Level: check.OK, Text: text})
	}
}

// members reports those that do not serve. A service of which none does has failed.
func (c *serviceChecks) members(unserved []federation.Unserved, definitions map[federation.ServiceID]*federation.Definition) {
	missing := make(map[federation.ServiceID]int)
	for _, u := range unserved {
		missing[u.Service]++
	}
	for _, u := range unserved {
		level := check.Warning
		if d := definitions[u.Service]; d != nil && missing[u.Service] == len(d.Members) {
			level = check.Failure
		}
		c.add(check.Members, u.Service.String(), level, fmt.Sprintf("%v of cluster %v does not serve: %v", u.Member.Service, u.Member.Cluster, u.Status), memberHint(u))
	}
}

func memberHint(u federation.Unserved) string {
	switch {
	case u.Status.Unreached:
		return "see the check of the cluster's gateways"
	case u.Status.Link == federation.Ready:
		return fmt.Sprintf("create the Service there, or take that member out of the annotations of Service %v", u.Service)
	case u.Status.Link == federation.Unlinked:
		return fmt.Sprintf("correct the cluster's name in the annotations of Service %v, or link it: isthmus link NAME --context CONTEXT --apply", u.Service)
	}
	return "see why the cluster can't be read, among the checks of links and API servers, and by: isthmus clusters"
}

// preferred reports the clusters that a Service's own preference names and that are not linked:
// their tiers are always empty.
func (c *serviceChecks) preferred(id federation.ServiceID, own *cluster.Service, d *federation.Definition, linked map[federation.ClusterName]bool) {
	if _, own := own.Annotations["isthmus.io/prefer"]; !own || d.Preference == nil {
		return
	}
	for _, tier := range d.Preference.Tiers {
		for _, term := range tier {
			if term.Kind == federation.Named && !linked[term.Cluster] {
				c.add(check.Definitions, id.String(), check.Warning, fmt.Sprintf("annotation isthmus.io/prefer: no cluster %v is linked", term.Cluster),
					"correct the name in the annotation, or link it: isthmus link NAME --context CONTEXT --apply")
			}
		}
	}
}

// ports reports the ports of a service that a member's Service does not have: clients of these
// are sent to its Pods at that very port.
func (c *serviceChecks) ports(id federation.ServiceID, own *cluster.Service, d *federation.Definition, of func(federation.Member) *cluster.Service) {
	for _, m := range d.Members {
		there := of(m)
		if there == nil || there.ExternalName || m.Cluster == federation.Local && m.Service == id {
			continue
		}
		var lacks []string
		for _, p := range own.Ports {
			if there.Declares(p.Number) {
				continue
			}
			text := fmt.Sprint(p.Number)
			if i := slices.IndexFunc(there.Ports, func(o cluster.ServicePort) bool { return p.Name != "" && o.Name == p.Name }); i >= 0 {
				text += fmt.Sprintf(" (%s is %d there)", p.Name, there.Ports[i].Number)
			}
			lacks = append(lacks, text)
		}
		if len(lacks) > 0 {
			c.add(check.Ports, id.String(), check.Warning, fmt.Sprintf("%v of cluster %v has no port %s: clients of that port are sent to that port of its Pods", m.Service, m.Cluster, strings.Join(lacks, ", ")),
				"give both Services the same port numbers; their target ports may differ")
		}
	}
}

// addresses reports what two members offer at the same address.
func (c *serviceChecks) addresses(watched []federation.WatchedPort) {
	for _, w := range watched {
		for _, m := range w.Members {
			if m.Yielded == 0 {
				continue
			}
			text := fmt.Sprintf("port %d: another member too offers %s of %v of cluster %v", w.Port, addresses(m.Yielded), m.Member.Service, m.Member.Cluster)
			if len(m.Conflicts) > 0 {
				text += fmt.Sprintf(": %v", m.Conflicts[0])
			}
			c.add(check.Addresses, w.Service.String(), check.Warning, text,
				"either two clusters use the same addresses, or one of them is linked twice; isthmus.io/address-ranges on link Secrets keeps them apart (docs/links.md)")
		}
	}
}

// addresses is a number of them.
func addresses(n int) string {
	if n == 1 {
		return "1 address"
	}
	return fmt.Sprintf("%d addresses", n)
}

// checkWriter reports whether some replica writes EndpointSlices for ExternalWorkloads.
func checkWriter(report *check.Report, s adminapi.SliceWriter) {
	x := check.Result{Section: check.SectionGateway, Check: check.SliceWriter, Level: check.OK, Text: "EndpointSlices for ExternalWorkloads are written by " + s.Holder}
	switch {
	case s.LeaseError != "":
		x.Level, x.Text = check.Warning, "the Lease of the replica that writes EndpointSlices can't be used: "+s.LeaseError
		x.Hint = "grant what manifests/install/rbac.yaml has for leases"
	case s.Holder == "":
		x.Level, x.Text = check.Warning, "no replica holds the Lease for writing EndpointSlices"
		x.Hint = "that is so for some seconds after a replica has ended; if it stays: isthmus clusters shows why"
	case s.Error != "":
		x.Level, x.Text = check.Warning, "EndpointSlices for ExternalWorkloads can't be written: "+s.Error
		x.Hint = "grant what manifests/install/rbac.yaml has for endpointslices"
	}
	report.Add(x)
}
