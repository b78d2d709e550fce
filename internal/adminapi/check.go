package adminapi

import "time"

// Check is /debug/check: what is right and wrong with what the gateway needs, as the gateway finds it from its own network.
type Check struct {
	Version string        `json:"version"` // of the gateway
	Replica string        `json:"replica"` // its name in the Lease
	Leading bool          `json:"leading"` // it writes EndpointSlices
	At      time.Time     `json:"at"`      // when API servers were asked
	Results []CheckResult `json:"results"`
}

// CheckResult is how one check of one object ended.
type CheckResult struct {
	Section string     `json:"section"`
	Check   string     `json:"check"`            // the check's name, which is stable
	Object  string     `json:"object,omitempty"` // a cluster, a Secret or a service
	Level   CheckLevel `json:"level"`
	Text    string     `json:"text"`
	Hint    string     `json:"hint,omitempty"` // what to do; only of what is not CheckOK
	// Gateway is the one that finds it, if others do not. Gateways leave it out; "isthmus check" fills it in.
	Gateway string `json:"gateway,omitempty"`
}

// CheckLevel is how good a result is.
type CheckLevel string

// The levels of results, from best to worst.
const (
	CheckOK        CheckLevel = "ok"
	CheckUnchecked CheckLevel = "unchecked" // nobody knows: it may not be read, or there was no time
	CheckWarning   CheckLevel = "warning"   // it works, and part of it does not or will soon not
	CheckFailure   CheckLevel = "failure"
)
