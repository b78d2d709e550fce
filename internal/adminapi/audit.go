package adminapi

import "time"

// Audit is /debug/audit: how far what the gateway knows of watched services has been compared with what the clusters' APIs have.
type Audit struct {
	Interval    string        `json:"interval"` // such as 1h0m0s, or off
	Services    int           `json:"services"` // that are watched
	Round       AuditRound    `json:"round,omitzero"`
	Last        time.Time     `json:"last,omitzero"` // when a member of a service was last audited
	Waiting     int           `json:"waiting"`       // members of services that are due
	Late        []string      `json:"late"`          // clusters with services that have waited for longer than the interval
	Differences uint64        `json:"differences"`   // that have been counted
	Results     []AuditResult `json:"results"`       // newest first; of those without differences only as many as there is room for
}

// AuditRound is the present interval.
type AuditRound struct {
	Began time.Time `json:"began"`
	Done  int       `json:"done"` // services that have been audited in it
	Of    int       `json:"of"`   // services that are watched
}

// AuditResult is what was found of one resource of a service of a cluster.
type AuditResult struct {
	At          time.Time         `json:"at"`
	Service     string            `json:"service"` // NAMESPACE/NAME in that cluster
	Cluster     string            `json:"cluster"`
	Resource    string            `json:"resource,omitempty"` // empty: none was looked at
	Compared    int               `json:"compared"`           // objects
	Differences []AuditDifference `json:"differences"`
	More        int               `json:"moreDifferences,omitempty"` // that were seen and are not listed
	Error       string            `json:"error,omitempty"`           // why not all was compared, or does not become equal
}

// AuditDifference is an object of which something else was known than the API had.
type AuditDifference struct {
	Object  string `json:"object"`  // NAMESPACE/NAME
	Problem string `json:"problem"` // missing in the gateway, not in the API, or differs
	Healed  bool   `json:"healed"`  // it is not different any more
}
