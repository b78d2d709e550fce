package client

import (
	"context"
	"time"

	"k8s.io/client-go/rest"
)

// checkPage is /debug/check of a gateway.
type checkPage struct {
	Version string        `json:"version"`
	Replica string        `json:"replica"`
	Leading bool          `json:"leading"`
	At      time.Time     `json:"at"`
	Results []CheckResult `json:"results"`
}

// CheckResult is how one check of one object ended, and one result of "isthmus check -o json".
type CheckResult struct {
	Section string `json:"section"`
	Check   string `json:"check"`
	Object  string `json:"object,omitempty"`
	Level   string `json:"level"`
	Text    string `json:"text"`
	Hint    string `json:"hint,omitempty"`
	// Gateway is the one that finds it, if others do not.
	Gateway string `json:"gateway,omitempty"`
}

// The levels of results, from best to worst.
const (
	levelOK        = "ok"
	levelUnchecked = "unchecked"
	levelWarning   = "warning"
	levelFailure   = "failure"
)

// Preflight is what is checked where there is no gateway.
type Preflight struct {
	Config    *rest.Config // how a user reaches the cluster
	Namespace string       // where a gateway is to run
	Account   string       // its ServiceAccount there
}

// Preflighter runs the checks of a gateway from here.
type Preflighter func(context.Context, Preflight) []CheckResult

// auditPage is /debug/audit of a gateway, as far as it is used here.
type auditPage struct {
	Interval    string       `json:"interval"`
	Services    int          `json:"services"`
	Last        time.Time    `json:"last"`
	Differences int          `json:"differences"`
	Results     []auditEntry `json:"results"`
}

type auditEntry struct {
	At          time.Time         `json:"at"`
	Service     string            `json:"service"`
	Cluster     string            `json:"cluster"`
	Resource    string            `json:"resource"`
	Differences []auditDifference `json:"differences"`
	Error       string            `json:"error"`
}

type auditDifference struct {
	Object  string `json:"object"`
	Problem string `json:"problem"`
	Healed  bool   `json:"healed"`
}
