package client

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"isthmus/clusterstore/check"
	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/internal/legible"
)

// Sections and checks of this package's own.
const (
	sectionGateway = check.SectionGateway

	checkGateway  = "gateway"  // it is there, and answers
	checkVersion  = "version"  // of the gateway and of this program
	checkReplicas = "replicas" // they agree, and one of them writes EndpointSlices
)

// sections are those of results, in order.
var sections = []string{sectionGateway, "Kubernetes API", "Links", "Trust", "Networks", "Services"}

// Where the checks were done.
const (
	fromGateway = "gateway"
	fromHere    = "here"
)

// checkState is what all checks have found.
type checkState struct {
	checkSnapshot
	colours bool
	marks   marks
}

type checkedGateway struct {
	Gateway string `json:"gateway"`
	Version string `json:"version,omitempty"`
	Replica string `json:"replica,omitempty"`
	Leading bool   `json:"leading"`
	Error   string `json:"error,omitempty"`
}

// checkSnapshot is a state as -o json has it. Numbers of results are filled in when it is printed.
type checkSnapshot struct {
	Time      time.Time        `json:"time"`
	From      string           `json:"from"`
	Gateways  []checkedGateway `json:"gateways"`
	Client    string           `json:"client,omitempty"`
	Failures  int              `json:"failures"`
	Warnings  int              `json:"warnings"`
	Unchecked int              `json:"unchecked"`
	Results   []check.Result   `json:"results"`
}

func (s *checkState) snapshot() checkSnapshot {
	one := s.checkSnapshot
	one.Gateways, one.Results = append([]checkedGateway{}, s.Gateways...), append([]check.Result{}, s.Results...) // never null
	one.Failures, one.Warnings, one.Unchecked = s.count(check.Failure), s.count(check.Warning), s.count(check.Unchecked)
	return one
}

// count returns how many results have a level.
func (s *checkState) count(level check.Level) (n int) {
	if s == nil {
		return 0
	}
	for _, r := range s.Results {
		if r.Level == level {
			n++
		}
	}
	return n
}

// why is what a state still waits for, in words; err is why there is none.
func (s *checkState) why(err error) string {
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return first
	}
	for _, r := range s.Results {
		if r.Level == check.Failure {
			return fmt.Sprintf("%s, first %s", cli.Count(s.count(check.Failure), "failure", "failures"), printable(resultLine(r)))
		}
	}
	return ""
}

// resultLine is a result in one line, without its hint.
func resultLine(r check.Result) string {
	text := r.Text
	if r.Level == check.Unchecked {
		text = "not checked: " + text
	}
	if r.Object != "" {
		text = r.Object + ": " + text
	}
	if r.Gateway != "" {
		text += " (" + r.Gateway + ")"
	}
	return text
}

func (s *checkState) add(r check.Result) { s.Results = append(s.Results, r) }

// sort orders results by section, and leaves them in order otherwise.
func (s *checkState) sort() {
	place := func(r check.Result) int {
		if i := slices.Index(sections, r.Section); i >= 0 {
			return i
		}
		return len(sections)
	}
	slices.SortStableFunc(s.Results, func(a, b check.Result) int { return place(a) - place(b) })
	for i := range s.Results { // what a gateway sends may be of any version
		if check.Rank(s.Results[i].Level) < 0 {
			s.Results[i].Level = check.Unchecked
		}
	}
}

// resultKey is what two replicas' results are compared by.
type resultKey struct{ check, object string }

// merge joins the answers of replicas. What all find alike is there once; of what they find
// otherwise, each one's is there with its name, and that is a result too.
func (s *checkState) merge(answers []Answer[check.Seen], client string) {
	s.Client = client
	var found [][]check.Result
	var names []string
	for _, a := range answers {
		g := checkedGateway{Gateway: a.Gateway}
		if a.Err != nil {
			var hint string
			g.Error, hint, _ = strings.Cut(a.Err.Error(), "\n")
			hint = cmp.Or(strings.TrimSpace(hint), "look at its log")
			if e, ok := errors.AsType[*notReadyError](a.Err); ok {
				g.Error, hint = "its Pod is not ready: "+e.why, e.hint
			}
			s.add(check.Result{Section: sectionGateway, Check: checkGateway, Object: a.Gateway, Level: check.Failure, Text: g.Error, Hint: hint})
			s.Gateways = append(s.Gateways, g)
			continue
		}
		page := a.Value
		g.Version = page.Replica.Version
		if w := page.Writer; w != nil {
			g.Replica, g.Leading = w.Identity, w.Leading
		}
		s.Gateways = append(s.Gateways, g)
		s.add(check.Result{Section: sectionGateway, Check: checkGateway, Object: a.Gateway, Level: check.OK, Text: "it answers"})
		s.addVersion(g, client)
		found, names = append(found, check.Judge(*page)), append(names, a.Gateway)
	}
	differing := s.mergeResults(found, names)
	if len(found) > 1 {
		s.addReplicas(len(found), differing)
	}
}

func (s *checkState) addVersion(g checkedGateway, client string) {
	x := check.Result{Section: sectionGateway, Check: checkVersion, Object: g.Gateway, Level: check.OK, Text: "its version is that of this program, " + client}
	if g.Version != client {
		x.Level, x.Text = check.Warning, fmt.Sprintf("its version is %s, that of this program %s", cmp.Or(g.Version, "not known"), client)
		x.Hint = "use the same version of both, so that all checks and fields are there"
	}
	s.add(x)
}

// mergeResults adds the results of pages, and returns what the replicas do not agree on.
func (s *checkState) mergeResults(found [][]check.Result, names []string) (differing []string) {
	byKey := make(map[resultKey][][]check.Result) // of each replica
	var order []resultKey
	for i, results := range found {
		for _, r := range results {
			k := resultKey{r.Check, r.Object}
			if byKey[k] == nil {
				order = append(order, k)
				byKey[k] = make([][]check.Result, len(found))
			}
			r.Gateway = names[i]
			byKey[k][i] = append(byKey[k][i], r)
		}
	}
	for _, k := range order {
		lists := byKey[k]
		all := slices.Concat(lists...)
		worst := slices.MaxFunc(all, func(a, b check.Result) int { return check.Rank(a.Level) - check.Rank(b.Level) })
		switch {
		case alike(lists):
			for _, r := range lists[0] { // a Service may have several of one check
				r.Gateway = ""
				s.add(r)
			}
		case worst.Level != check.OK:
			differing = append(differing, strings.TrimSpace(k.check+" "+k.object))
			for _, r := range all {
				if r.Level != check.OK {
					s.add(r)
				}
			}
		case k.object != "":
			differing = append(differing, k.check+" "+k.object)
			s.add(worst)
		default: // a summary, which others do not have since they find something
		}
	}
	return differing
}

// alike reports whether all replicas have the same levels of one check of one object.
func alike(lists [][]check.Result) bool {
	for _, list := range lists[1:] {
		if !slices.EqualFunc(lists[0], list, func(a, b check.Result) bool { return a.Level == b.Level }) {
			return false
		}
	}
	return true
}

// addReplicas reports whether the replicas that have answered agree, and whether one of them writes.
func (s *checkState) addReplicas(answered int, differing []string) {
	x := check.Result{Section: sectionGateway, Check: checkReplicas, Level: check.OK, Text: fmt.Sprintf("%d replicas agree", answered)}
	if len(differing) > 0 {
		x.Level, x.Text = check.Warning, "the replicas differ: "+legible.Some(differing, maxNames)
		x.Hint = "check again in some seconds; if it stays, compare: isthmus clusters --pod NAME"
	}
	s.add(x)
	var leaders []string
	for _, g := range s.Gateways {
		if g.Leading {
			leaders = append(leaders, g.Gateway)
		}
	}
	x = check.Result{Section: sectionGateway, Check: checkReplicas, Level: check.OK, Text: "one of them writes EndpointSlices: " + strings.Join(leaders, "")}
	switch {
	case len(leaders) > 1:
		x.Level, x.Text = check.Failure, "more than one of them writes EndpointSlices: "+strings.Join(leaders, ", ")
		x.Hint = "each replica needs a name of its own in $HOSTNAME, and all of them the same Lease"
	case len(leaders) == 0:
		x.Level, x.Text = check.Warning, "none of them writes EndpointSlices"
		x.Hint = "check again in some seconds: that is so after one has ended"
	}
	s.add(x)
}
