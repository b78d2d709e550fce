package commands

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"isthmus/cmd/isthmus/internal/check"
	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

// Checks of this package's own, all in the section Gateway.
const (
	checkAnswers  = "gateway"  // it is there, and answers
	checkVersion  = "version"  // of the gateway and of this program
	checkReplicas = "replicas" // they agree, and one of them writes EndpointSlices
)

// checkState is what all checks have found. Its results are sorted and counted by finish.
type checkState struct {
	adminapi.CheckOutput
	marks marks
	// how many replicas have answered, and how many of these are of a format that the program knows
	replicas, judged int
}

func newCheckState(from string) *checkState {
	return &checkState{CheckOutput: adminapi.CheckOutput{Time: time.Now(), From: from, Gateways: []adminapi.CheckedReplica{}, Results: []check.Result{}}}
}

// add adds a result of the section Gateway.
func (s *checkState) add(name, object string, level check.Level, text, hint string) {
	s.Results = append(s.Results, check.Result{Section: check.SectionReplicas, Check: name, Object: object, Level: level, Text: text, Hint: hint})
}

// finish orders the results by section, leaves them in order otherwise, and counts them.
func (s *checkState) finish() {
	place := func(r check.Result) int { return slices.Index(check.Sections, r.Section) }
	slices.SortStableFunc(s.Results, func(a, b check.Result) int { return place(a) - place(b) })
	for _, r := range s.Results {
		switch r.Level {
		case check.Failure:
			s.Failures++
		case check.Warning:
			s.Warnings++
		case check.Unchecked:
			s.Unchecked++
		}
	}
}

// why is what a state still waits for, in words; err is why there is none.
func (s *checkState) why(err error) string {
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return first
	}
	for _, r := range s.Results {
		if r.Level == check.Failure {
			return fmt.Sprintf("%s, first %s", text.Count(s.Failures, "failure", "failures"), Printable(resultLine(r)))
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

// resultKey is what two replicas' results are compared by.
type resultKey struct{ check, object string }

// merge joins the answers of replicas. What all find alike is there once; of what they find
// otherwise, each one's is there with its name, and that is a result too.
func (s *checkState) merge(answers []Answer[check.Seen], client adminapi.Build) {
	s.Client = client.Version
	var found [][]check.Result
	var names []string
	for _, a := range answers {
		g := adminapi.CheckedReplica{Gateway: a.Replica}
		_, otherVersion := errors.AsType[versionError](a.Err)
		if a.Err != nil && !otherVersion {
			var hint string
			g.Error, hint, _ = strings.Cut(a.Err.Error(), "\n")
			hint = cmp.Or(strings.TrimSpace(hint), "look at its log")
			if rest, ok := strings.CutPrefix(g.Error, "Pod "+a.Replica); ok { // which the result names anyway
				g.Error = "its Pod" + rest
			}
			s.add(checkAnswers, a.Replica, check.Failure, g.Error, hint)
			s.Gateways = append(s.Gateways, g)
			continue
		}
		page := a.Value
		g.Version, g.Commit = cmp.Or(page.Replica.Version, a.Build.Version), a.Build.Commit
		s.replicas++
		if unchecked := a.Unchecked(client); unchecked != "" {
			s.Gateways = append(s.Gateways, g)
			s.add(checkAnswers, a.Replica, check.OK, "it answers", "")
			s.add(checkVersion, a.Replica, check.Unchecked, unchecked,
				"use the same version of both: update the older one")
			continue
		}
		s.judged++
		if w := page.Writer; w != nil {
			g.Replica, g.Leading = w.Identity, w.Leading
		}
		s.Gateways = append(s.Gateways, g)
		s.add(checkAnswers, a.Replica, check.OK, "it answers", "")
		s.addVersion(g, client)
		found, names = append(found, check.Judge(*page)), append(names, a.Replica)
	}
	differing := s.mergeResults(found, names)
	if len(found) > 1 {
		s.addReplicas(len(found), differing)
	}
}

// unknown reports whether replicas have answered, and none in a format that the program knows.
func (s *checkState) unknown() bool { return s.replicas > 0 && s.judged == 0 }

// addVersion compares the versions and, if they are equal, the commits: two builds of no release have the same version.
func (s *checkState) addVersion(g adminapi.CheckedReplica, client adminapi.Build) {
	const hint = "use the same version of both, so that all checks and fields are there"
	add := func(level check.Level, text, hint string) { s.add(checkVersion, g.Gateway, level, text, hint) }
	switch {
	case g.Version != client.Version:
		version := cmp.Or(g.Version, "not known")
		add(check.Warning, fmt.Sprintf("its version is %s, that of this program %s", version, client.Version), hint)
	case g.Commit != client.Commit:
		text := fmt.Sprintf("its version is that of this program, %s, but its commit is %s, that of this program %s",
			client.Version, cmp.Or(g.Commit, "not known"), cmp.Or(client.Commit, "not known"))
		add(check.Warning, text, hint)
	default:
		add(check.OK, "its version is that of this program, "+client.Version, "")
	}
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
		if alike(lists) {
			for _, r := range lists[0] { // a Service may have several of one check
				r.Gateway = ""
				s.Results = append(s.Results, r)
			}
			continue
		}
		all := slices.Concat(lists...)
		shown := slices.DeleteFunc(slices.Clone(all), func(r check.Result) bool { return r.Level == check.OK })
		if len(shown) == 0 && k.object != "" {
			shown = all[:1]
		}
		if len(shown) > 0 { // or it is a summary, which others do not have since they find something
			differing = append(differing, strings.TrimSpace(k.check+" "+k.object))
			s.Results = append(s.Results, shown...)
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
	if len(differing) == 0 {
		s.add(checkReplicas, "", check.OK, fmt.Sprintf("%d replicas agree", answered), "")
	} else {
		s.add(checkReplicas, "", check.Warning, "the replicas differ: "+text.Some(differing, maxNames), "check again in some seconds; if it stays, compare: isthmus clusters --pod NAME")
	}
	var leaders []string
	for _, g := range s.Gateways {
		if g.Leading {
			leaders = append(leaders, g.Gateway)
		}
	}
	switch len(leaders) {
	case 0:
		s.add(checkReplicas, "", check.Warning, "none of them writes EndpointSlices", "check again in some seconds: that is so after one has ended")
	case 1:
		s.add(checkReplicas, "", check.OK, "one of them writes EndpointSlices: "+leaders[0], "")
	default:
		s.add(checkReplicas, "", check.Failure, "more than one of them writes EndpointSlices: "+strings.Join(leaders, ", "), "each replica needs a name of its own in $HOSTNAME, and all of them the same Lease")
	}
}
