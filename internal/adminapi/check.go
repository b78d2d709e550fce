package adminapi

// CheckResult is how one check of one object ended, as "isthmus check" prints it.
type CheckResult struct {
	Section string     `json:"section"`
	Check   string     `json:"check"`            // the check's name, which is stable
	Object  string     `json:"object,omitempty"` // a cluster, a Secret or a service
	Level   CheckLevel `json:"level"`
	Text    string     `json:"text"`
	Hint    string     `json:"hint,omitempty"`    // what to do; of what is OK there is none
	Gateway string     `json:"gateway,omitempty"` // the one that finds it, if others do not
}

// CheckLevel is how good a result is.
type CheckLevel string

// The levels of results, from best to worst.
const (
	CheckOK        CheckLevel = "ok"
	CheckUnchecked CheckLevel = "unchecked" // it is not known: it may not be read, or there was no time
	CheckWarning   CheckLevel = "warning"   // it works, and part of it does not or will soon not
	CheckFailure   CheckLevel = "failure"
)
