package check

import (
	"cmp"
	"slices"

	"isthmus/internal/adminapi"
)

// Sections of results.
const (
	SectionReplicas = "Gateway" // of which only a replica knows, or who asks it
	sectionAPI      = "Kubernetes API"
	sectionLinks    = "Links"
	sectionTrust    = "Trust"
	sectionNetworks = "Networks"
	sectionServices = "Services"
)

// Sections are all sections, in the order of results.
var Sections = []string{SectionReplicas, sectionAPI, sectionLinks, sectionTrust, sectionNetworks, sectionServices}

// Names of checks.
const (
	API         = "api"          // an API server answers, and which version
	ClockSkew   = "clock-skew"   // its clock is as the own one
	Rights      = "rights"       // what the credentials in use permit
	CRDs        = "crds"         // Linkerd's kinds that it serves
	LinkSecrets = "link-secrets" // that they can be read
	LinkSecret  = "link-secret"  // one of them
	LinkExpiry  = "link-expiry"  // how long its credentials are good
	LinkState   = "link-state"   // whether the replica follows the cluster, and its standing
	LinkMemory  = "link-memory"  // that all linked clusters together leave memory for the rest
	Objects     = "objects"      // of the cluster, that they can be read and used
	Gateways    = "gateways"     // that those of a cluster on another network can be used
	Anchors     = "trust-anchors"
	PodNetworks = "pod-networks"
	Conflicts   = "address-conflicts" // that no address of the own cluster is claimed by several objects

	Members     = "members"     // of federated services: that they serve
	Ports       = "ports"       // that they have the ports
	Addresses   = "addresses"   // that none is offered twice
	Definitions = "definitions" // annotations and labels
	Updates     = "updates"     // that Isthmus can update what clients get

	Leftovers = "leftover-mirrors" // of Linkerd's service mirror, of clusters that are not linked

	SliceWriter = "slice-writer" // that one replica writes EndpointSlices, and can
	Exports     = "exports"      // that one replica writes what clusters export, and can
)

// Checks are the names of all checks, in the order of results.
var Checks = []string{
	API, ClockSkew, Rights, CRDs,
	LinkSecrets, LinkSecret, LinkState, LinkMemory, Objects, Gateways, LinkExpiry, Anchors,
	PodNetworks, Conflicts, SliceWriter, Exports,
	Members, Ports, Addresses, Definitions, Leftovers, Updates,
}

// Result is how one check of one object ended.
type Result = adminapi.CheckResult

// Level is how a check ended.
type Level = adminapi.CheckLevel

// The levels, from best to worst.
const (
	OK        = adminapi.CheckOK
	Unchecked = adminapi.CheckUnchecked
	Warning   = adminapi.CheckWarning
	Failure   = adminapi.CheckFailure
)

// Rank orders levels, the worst last; an unknown one is -1.
func Rank(l Level) int { return slices.Index([]Level{OK, Unchecked, Warning, Failure}, l) }

// report collects results.
type report struct{ results []Result }

// about returns a function that adds results of one check of one object.
func (r *report) about(section, check, object string) func(level Level, text, hint string) {
	return func(level Level, text, hint string) {
		r.results = append(r.results,
			Result{Section: section, Check: check, Object: object, Level: level, Text: text, Hint: hint})
	}
}

// sorted returns the results in the order of [Checks], and then by object.
func (r *report) sorted() []Result {
	slices.SortStableFunc(r.results, func(a, b Result) int {
		return cmp.Or(cmp.Compare(slices.Index(Checks, a.Check), slices.Index(Checks, b.Check)),
			cmp.Compare(a.Object, b.Object))
	})
	return r.results
}

// ofService adds a result of one check of a service.
func (r *report) ofService(check, service string, level Level, text, hint string) {
	r.about(sectionServices, check, service)(level, text, hint)
}
