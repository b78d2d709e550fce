package check

import (
	"cmp"
	"slices"

	"isthmus/internal/adminapi"
)

// Sections of results.
const (
	SectionReplicas = "Gateway" // only a replica or its client has the information
	sectionAPI      = "Kubernetes API"
	sectionLinks    = "Links"
	sectionTrust    = "Trust"
	sectionNetworks = "Networks"
	sectionServices = "Services"
)

// Sections lists all sections in the order in which results are sorted.
var Sections = []string{SectionReplicas, sectionAPI, sectionLinks, sectionTrust, sectionNetworks, sectionServices}

// Names of checks.
const (
	API         = "api"          // the API server responds; its version
	ClockSkew   = "clock-skew"   // the clock of the API server agrees with the local clock
	Rights      = "rights"       // permissions of the credentials in use
	CRDs        = "crds"         // the API server serves Linkerd's kinds
	LinkSecrets = "link-secrets" // link Secrets can be read
	LinkSecret  = "link-secret"  // one link Secret
	LinkExpiry  = "link-expiry"  // remaining lifetime of the link's credentials
	LinkState   = "link-state"   // the replica watches the cluster; its standing
	LinkMemory  = "link-memory"  // all linked clusters together leave memory for the rest
	Objects     = "objects"      // objects of the cluster can be read and used
	Gateways    = "gateways"     // gateways of a cluster on another network can be used
	Anchors     = "trust-anchors"
	PodNetworks = "pod-networks"
	Conflicts   = "address-conflicts" // no address of the local cluster is claimed by several objects

	Members     = "members"     // members of federated services serve
	Ports       = "ports"       // members have the ports
	Addresses   = "addresses"   // no address is offered twice
	Definitions = "definitions" // annotations and labels are valid
	Updates     = "updates"     // Isthmus can update what clients receive

	Leftovers = "leftover-mirrors" // mirrors of unlinked clusters that Linkerd's service mirror left behind

	SliceWriter = "slice-writer" // one replica writes EndpointSlices and can do so
	Copies      = "copies"       // stale clusters are copied, so that a replica that starts can serve them
	Exports     = "exports"      // one replica writes Services for exports and can do so
)

// Checks lists the names of all checks in the order in which results are sorted.
var Checks = []string{
	API, ClockSkew, Rights, CRDs,
	LinkSecrets, LinkSecret, LinkState, LinkMemory, Objects, Gateways, LinkExpiry, Anchors,
	PodNetworks, Conflicts, SliceWriter, Copies, Exports,
	Members, Ports, Addresses, Definitions, Leftovers, Updates,
}

// Result is the outcome of one check of one object.
type Result = adminapi.CheckResult

// Level is the severity of a check's result.
type Level = adminapi.CheckLevel

// Levels, from best to worst.
const (
	OK        = adminapi.CheckOK
	Unchecked = adminapi.CheckUnchecked
	Warning   = adminapi.CheckWarning
	Failure   = adminapi.CheckFailure
)

// Rank returns a number that is higher for worse levels, and -1 for unknown levels.
func Rank(l Level) int { return slices.Index([]Level{OK, Unchecked, Warning, Failure}, l) }

// report collects results.
type report struct{ results []Result }

func (r *report) about(section, check, object string) func(level Level, text, hint string) {
	return func(level Level, text, hint string) {
		r.results = append(r.results,
			Result{Section: section, Check: check, Object: object, Level: level, Text: text, Hint: hint})
	}
}

// sorted returns the results in the order of [Checks]. The results of each check are sorted by
// object.
func (r *report) sorted() []Result {
	slices.SortStableFunc(r.results, func(a, b Result) int {
		return cmp.Or(cmp.Compare(slices.Index(Checks, a.Check), slices.Index(Checks, b.Check)),
			cmp.Compare(a.Object, b.Object))
	})
	return r.results
}

func (r *report) ofService(check, service string, level Level, text, hint string) {
	r.about(sectionServices, check, service)(level, text, hint)
}
