package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

func checkServices(r *report, s *Input) {
	federated := 0
	for i := range s.Services {
		x := &s.Services[i]
		if isFederated(x) {
			federated++
		}
		checkMembers(r, x)
		checkAddresses(r, x)
		for _, f := range x.Failures {
			r.ofService(Updates, x.Service, Failure, f.String(),
				"report this bug, and include the stack trace from the log "+
					"(message \"panic: this is a bug in Isthmus\"); "+
					"docs/operations.md describes what to do until the bug is fixed")
		}
		for _, problem := range x.Problems {
			r.ofService(Definitions, x.Service, Warning, problem,
				"correct the Service's annotations and labels; "+
					"docs/links.md and docs/preference.md list the valid values")
		}
		if x.Preference != nil {
			for _, cluster := range x.Preference.Unlinked {
				r.ofService(Definitions, x.Service, Warning,
					fmt.Sprintf("annotation isthmus.io/prefer: no cluster %s is linked", cluster),
					"correct the name in the annotation, or link the cluster: "+
						"isthmus link NAME --context CONTEXT --apply")
			}
		}
	}
	for _, fine := range []struct{ check, text string }{
		{Members, services(federated)}, {Ports, "every member declares all ports of each service that it belongs to"},
		{Addresses, "no two members of a watched service offer the same address"},
		{Definitions, "all annotations and labels can be used"},
		{Updates, "no update of a service has panicked"},
	} {
		if !slices.ContainsFunc(r.results, func(x Result) bool { return x.Check == fine.check }) {
			r.ofService(fine.check, "", OK, fine.text, "")
		}
	}
}

func isFederated(s *adminapi.Service) bool {
	return s.Federated || slices.ContainsFunc(s.Members, func(m adminapi.Member) bool { return m.Cluster != "local" })
}

func services(n int) string {
	if n == 0 {
		return "there are no federated or mirrored services"
	}
	return text.Count(n, "federated or mirrored service", "federated or mirrored services") + ": all members serve"
}

// checkMembers reports members that lack ports and members that are not serving. If no member of
// the service is serving, the results are Failures.
func checkMembers(r *report, s *adminapi.Service) {
	level := Failure
	if slices.ContainsFunc(s.Members, func(m adminapi.Member) bool { return m.Reason == "" }) {
		level = Warning
	}
	for _, m := range s.Members {
		if m.Reason != "" {
			r.ofService(Members, s.Service, level,
				fmt.Sprintf("%s of cluster %s does not serve: %s", m.Service, m.Cluster, m.Reason),
				memberHint(s.Service, m.Reason))
		}
		if len(m.LacksPorts) > 0 {
			r.ofService(Ports, s.Service, Warning,
				fmt.Sprintf("%s in cluster %s does not declare port %s: "+
					"clients connect to the same port on the Service's Pods",
					m.Service, m.Cluster, strings.Join(m.LacksPorts, ", ")),
				"use the same port numbers in both Services; their target ports may differ")
		}
	}
}

// memberHint returns the hint for a member that is not serving, based on the text of its
// federation.MemberStatus.
func memberHint(service, reason string) string {
	switch reason {
	case "no gateway of the cluster can be used":
		return "see the check of the cluster's gateways"
	case "no such Service in the cluster", "Service is of type ExternalName":
		return "create the Service in the member's cluster, " +
			"or remove the member from the annotations of Service " + service
	case "cluster is unlinked":
		return "correct the cluster's name in the annotations of Service " + service +
			", or link it: isthmus link NAME --context CONTEXT --apply"
	}
	return "see the checks for links and API servers, and run isthmus clusters, " +
		"to find out why the cluster cannot be read"
}

func checkAddresses(r *report, s *adminapi.Service) {
	for _, p := range s.Ports {
		for _, m := range p.Members {
			if m.Conflicts == 0 {
				continue
			}
			text := fmt.Sprintf("port %d: %s in cluster %s offers %s that another member also offers", p.Port,
				m.Service, m.Cluster, text.Count(m.Conflicts, "address", "addresses"))
			if len(m.ConflictsWith) > 0 {
				text += ": " + m.ConflictsWith[0]
			}
			r.ofService(Addresses, s.Service, Warning, text,
				"two clusters use the same addresses, or one cluster is linked twice; "+
					"to separate them, annotate the link Secrets with isthmus.io/address-ranges (docs/links.md)")
		}
	}
}

// checkLeftovers reports mirror Services that Linkerd's service mirror left behind. The hint is a
// command that deletes all mirrors whose labels contain the name of the cluster.
func checkLeftovers(r *report, s *Input) {
	for _, left := range s.Leftovers {
		add := r.about(sectionServices, Leftovers, left.Cluster)
		names := strings.Join(left.Services, ", ")
		if more := left.Number - len(left.Services); more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		message := fmt.Sprintf("the cluster is not linked, but Linkerd's service mirror left %s behind: %s",
			text.Count(left.Number, "mirror", "mirrors"), names)
		remove := "kubectl delete services --all-namespaces --selector " +
			"'mirror.linkerd.io/mirrored-service=true,mirror.linkerd.io/cluster-name=" + left.Cluster +
			",!isthmus.io/written-by'"
		if left.Unknown == "" {
			add(Warning, message, remove)
			continue
		}
		message = fmt.Sprintf(
			"the cluster has no link Secret, and Isthmus cannot tell whether Linkerd still writes %s: %s (%s)",
			text.Count(left.Number, "mirror", "mirrors"), names, left.Unknown)
		add(Unchecked, message, "allow Isthmus to read Links and Leases: "+
			"kubectl apply -k manifests/install/exports/linkerd; if no service mirror runs for the cluster: "+remove)
	}
}

const (
	// conflictLasts is how long an address may belong to several objects before a warning appears.
	// The replacement of a Pod can cause a conflict, but only for a few seconds.
	conflictLasts = time.Minute
	maxConflicts  = 10
)

// checkConflicts reports the addresses of the local cluster that several objects have claimed for
// at least conflictLasts.
func checkConflicts(r *report, s *Input, now time.Time) {
	lasting := 0
	for _, x := range s.Conflicts {
		if now.Sub(x.Since) < conflictLasts {
			continue
		}
		if lasting++; lasting > maxConflicts {
			continue
		}
		r.about(sectionNetworks, Conflicts, x.Address)(Warning,
			fmt.Sprintf("%s have claimed it for %s: %s; "+
				"GetProfile returns Unavailable until only one object claims the address",
				x.Claimed, roughly(now.Sub(x.Since)), strings.Join(x.Objects, ", ")),
			"delete or correct all but one of the conflicting objects; "+
				"to delete Pods on a node that no longer exists: "+
				"kubectl delete pod -n NAMESPACE NAME --force")
	}
	if more := lasting - maxConflicts + s.MoreConflicts; lasting > maxConflicts {
		text := text.Count(more, "more address is", "more addresses are") + " claimed by several objects"
		r.about(sectionNetworks, Conflicts, "")(Warning, text,
			"the field addressConflicts of /debug/clusters lists the oldest conflicts")
	}
	if lasting == 0 {
		r.about(sectionNetworks, Conflicts, "")(OK,
			"no address of this cluster is claimed by more than one object "+
				"(conflicts shorter than a minute are ignored)", "")
	}
}
