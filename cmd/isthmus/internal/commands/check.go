package commands

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"isthmus/cmd/isthmus/internal/check"
	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/cmd/isthmus/internal/reach"
	"isthmus/internal/adminapi"
	"isthmus/internal/pace"
	"isthmus/internal/text"
)

// checkTimeout is long enough to check 250 clusters, even if many of them do not respond.
const checkTimeout = 30 * time.Second

type checkOptions struct {
	Target
	pre       bool // only run the checks that need no replica
	exports   bool // for a replica with --exports=on
	wait      time.Duration
	every     time.Duration // interval between checks with --wait
	account   string
	preflight func(context.Context, preflightOptions) check.Input
}

// checkCommand returns the check command, which calls preflight if there is no replica or --pre is
// set.
func checkCommand(preflight func(context.Context, preflightOptions) check.Input) cli.Command {
	o := &checkOptions{every: 2 * time.Second, preflight: preflight}
	return o.command(cli.Command{
		Use:     "check",
		Summary: "check the requirements of Isthmus, before and after you install it",
		Intro:   checkIntro,
		Ending:  checkEnding,
		OneOf:   [][2]string{{"pre", "admin"}, {"pre", "pod"}},
		Run:     func(ctx context.Context, p cli.Process) error { return runCheck(ctx, p, o) },
	}, func(s *pflag.FlagSet) {
		o.pageFlags(s, checkTimeout, "Time limit for each run of the checks, as a `DURATION`.")
		s.BoolVar(&o.pre, "pre", false,
			"Check the clusters before an installation, without looking for replicas. "+
				"Permissions that Isthmus lacks do not count as failures.")
		s.BoolVar(&o.exports, "exports", false,
			"Also check the permissions that --exports=on needs. "+
				"This flag has an effect only with --pre, or if no replica responds.")
		s.DurationVar(&o.wait, "wait", 0, "Repeat the checks until none fails, for up to this `DURATION`.")
		s.StringVar(&o.account, "service-account", "isthmus",
			"`NAME` of the ServiceAccount that Isthmus will use. "+
				"This flag has an effect only with --pre, or if no replica responds.")
	})
}

func runCheck(ctx context.Context, p cli.Process, o *checkOptions) error {
	if o.wait < 0 {
		return cli.Usagef("--wait is %v: use a duration, such as 5m", o.wait)
	}
	s, err := o.untilFine(ctx, p)
	if err != nil {
		return err
	}
	if o.asJSON() {
		err = printJSON(p.Stdout, s.CheckOutput)
	} else {
		s.marks = marksOf(os.Getenv)
		err = printText(p.Stdout, s.table())
	}
	switch {
	case err != nil:
	case s.unknown():
		err = errors.New("cannot check anything: no replica serves the debug API in a supported format")
	case s.Failures > 0:
		err = fmt.Errorf("%s: see the hint below each failed check",
			text.Count(s.Failures, "check has failed", "checks have failed"))
	}
	return err
}

// untilFine repeats the checks until no check fails or the time limit set by --wait is reached, and
// returns the last result.
func (o *checkOptions) untilFine(ctx context.Context, p cli.Process) (*checkState, error) {
	began := time.Now()
	for before := ""; ; {
		s, err := o.runOnce(ctx, p)
		if err == nil && s.Failures == 0 || ctx.Err() != nil || time.Since(began)+o.every > o.wait {
			return s, err
		}
		if why := s.firstFailure(err); why != before {
			fmt.Fprintf(p.Stderr, "%s: waiting, for %v at most: %s\n", p.Name, o.wait, why)
			before = why
		}
		if !pace.Sleep(ctx, o.every) {
			return s, err
		}
	}
}

// runOnce fetches the clusters page and the services page of every replica, and performs all checks
// on these pages. With --pre, or if there is no replica, runOnce performs only the checks that do
// not need a replica.
func (o *checkOptions) runOnce(ctx context.Context, p cli.Process) (*checkState, error) {
	if o.pre {
		return o.fromHere(ctx, p, nil)
	}
	answers, err := ask(ctx, p, &o.Target, "/debug/clusters and /debug/services",
		func(ctx context.Context, g reach.Replica, seen *check.Input) (Origin, error) {
			from, err := fetch(ctx, g, "/debug/clusters?"+adminapi.FreshParameter+"=true", &seen.Clusters)
			if err == nil {
				_, err = fetch(ctx, g, "/debug/services", &seen.Services)
			}
			return from, err
		})
	if none, ok := errors.AsType[reach.NoReplica](err); ok {
		return o.fromHere(ctx, p, none)
	}
	if err != nil {
		return nil, err
	}
	s := newCheckState(adminapi.CheckedReplicas)
	s.merge(answers, p.Build)
	s.finish()
	return s, nil
}

// fromHere uses the user's kubeconfig to run the checks that do not need a replica. If noReplica is
// not nil, fromHere also adds a failed check with this error.
func (o *checkOptions) fromHere(ctx context.Context, p cli.Process, noReplica error) (*checkState, error) {
	s := newCheckState(adminapi.CheckedHere)
	if noReplica != nil {
		text, hint, _ := strings.Cut(noReplica.Error(), "\n")
		s.add(checkAnswers, "", check.Failure, text,
			cmp.Or(strings.TrimSpace(hint), "look for the replica")+"; before an installation, run isthmus check --pre")
	}
	cluster, err := o.Open()
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	var found check.Input
	err = o.await(ctx, p, "the checks from here", "at least one cluster", func() error {
		found = o.preflight(ctx, preflightOptions{
			config:    cluster.Config(),
			api:       cluster.API,
			namespace: o.Namespace,
			account:   o.account,
			pre:       o.pre,
			exports:   o.exports,
		})
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	s.Results = append(s.Results, check.Judge(found)...)
	s.finish()
	return s, nil
}

// Package check performs all checks except "gateway", "version" and "replicas", which package
// commands performs itself.
const (
	checkAnswers  = "gateway"  // a replica exists and responds
	checkVersion  = "version"  // versions of the replica and of this program
	checkReplicas = "replicas" // replicas agree, and one of them writes EndpointSlices
)

// checkState collects the results of all checks. The finish method sorts and counts the results.
type checkState struct {
	adminapi.CheckOutput
	marks    marks
	replicas int // replicas that responded
	judged   int // replicas that responded in a supported page format
}

func newCheckState(from string) *checkState {
	return &checkState{CheckOutput: adminapi.CheckOutput{
		Time: time.Now(), From: from, Gateways: []adminapi.CheckedReplica{}, Results: []check.Result{},
	}}
}

func (s *checkState) add(name, object string, level check.Level, text, hint string) {
	s.Results = append(s.Results,
		check.Result{Section: check.SectionReplicas, Check: name, Object: object, Level: level, Text: text, Hint: hint})
}

// finish counts the results, and sorts them by section without changing the order within a section.
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

// firstFailure describes the first failed check or, if the checks could not run, the error.
func (s *checkState) firstFailure(err error) string {
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

// merge combines the responses of the replicas. If all replicas agree on a check, its result is
// listed once. If replicas disagree, each result that is not OK is listed with the name of its
// replica. If at least two responses can be evaluated, merge also adds a result that says whether
// the replicas agree.
func (s *checkState) merge(answers []Answer[check.Input], client adminapi.Build) {
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
			if rest, ok := strings.CutPrefix(g.Error, "Pod "+a.Replica); ok { // the result names the Pod anyway
				g.Error = "its Pod" + rest
			}
			s.add(checkAnswers, a.Replica, check.Failure, g.Error, hint)
			s.Gateways = append(s.Gateways, g)
			continue
		}
		page := a.Value
		g.Version = cmp.Or(page.Replica.Version, a.Build.Version)
		g.Commit = a.Build.Commit
		s.replicas++
		if unchecked := a.Unchecked(client); unchecked != "" {
			s.Gateways = append(s.Gateways, g)
			s.add(checkAnswers, a.Replica, check.OK, "it answers", "")
			s.add(checkVersion, a.Replica, check.Unchecked, unchecked,
				"update the replica or this program, whichever is older")
			continue
		}
		s.judged++
		if w := page.Writer; w != nil {
			g.Replica = w.Identity
			g.Leading = w.Leading
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

// The unknown method reports whether replicas responded, but none of them in a page format that
// this program supports.
func (s *checkState) unknown() bool { return s.replicas > 0 && s.judged == 0 }

// addVersion adds a result that compares the version of a replica with the version of this program.
// If the versions are equal, addVersion compares the commits, because different builds may have the
// same version.
func (s *checkState) addVersion(g adminapi.CheckedReplica, client adminapi.Build) {
	const hint = "use the same version for the replica and this program, so that all checks and fields are available"
	add := func(level check.Level, text, hint string) { s.add(checkVersion, g.Gateway, level, text, hint) }
	switch {
	case g.Version != client.Version:
		version := cmp.Or(g.Version, "not known")
		text := fmt.Sprintf("its version is %s, but the version of this program is %s", version, client.Version)
		add(check.Warning, text, hint)
	case g.Commit != client.Commit:
		text := fmt.Sprintf("it runs the same version as this program, %s, "+
			"but it was built from commit %s, and this program from %s", client.Version,
			cmp.Or(g.Commit, "not known"), cmp.Or(client.Commit, "not known"))
		add(check.Warning, text, hint)
	default:
		add(check.OK, "it runs the same version as this program, "+client.Version, "")
	}
}

// mergeResults adds the results of all pages to s, and returns the checks on which the replicas
// differ.
func (s *checkState) mergeResults(found [][]check.Result, names []string) (differing []string) {
	byKey := make(map[resultKey][][]check.Result) // one list per replica
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
			for _, r := range lists[0] { // a Service may have several results of one check
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
		if len(shown) > 0 { // skip summaries, which replicas with a finding do not have
			differing = append(differing, strings.TrimSpace(k.check+" "+k.object))
			s.Results = append(s.Results, shown...)
		}
	}
	return differing
}

func (s *checkState) addReplicas(answered int, differing []string) {
	if len(differing) == 0 {
		s.add(checkReplicas, "", check.OK, fmt.Sprintf("%d replicas agree", answered), "")
	} else {
		s.add(checkReplicas, "", check.Warning, "the replicas differ: "+text.Some(differing, maxNames),
			"check again in a few seconds; "+
				"if the replicas still differ, compare the output of isthmus clusters --pod NAME for each replica")
	}
	var leaders []string
	for _, g := range s.Gateways {
		if g.Leading {
			leaders = append(leaders, g.Gateway)
		}
	}
	switch len(leaders) {
	case 0:
		s.add(checkReplicas, "", check.Warning, "none of the replicas writes EndpointSlices",
			"check again in a few seconds: when a replica stops, another replica takes over")
	case 1:
		s.add(checkReplicas, "", check.OK, "one replica writes EndpointSlices: "+leaders[0], "")
	default:
		s.add(checkReplicas, "", check.Failure,
			"more than one replica writes EndpointSlices: "+strings.Join(leaders, ", "),
			"give each replica a different $HOSTNAME, and configure the same Lease for all replicas")
	}
}

func (s *checkState) table() string {
	var b bytes.Buffer
	if s.From == adminapi.CheckedHere {
		b.WriteString("No replica responded. " +
			"These checks ran on this machine, not in the network where Isthmus runs.\n\n")
	}
	for _, section := range runs(s.Results, func(r check.Result) string { return r.Section }) {
		fmt.Fprintf(&b, "%s\n", Printable(section[0].Section))
		for _, one := range runs(section, func(r check.Result) string { return r.Check }) {
			s.writeCheck(&b, one)
		}
		b.WriteByte('\n')
	}
	b.WriteString(s.summary() + "\n")
	return b.String()
}

const maxFine = 5

func (s *checkState) writeCheck(b *bytes.Buffer, list []check.Result) {
	var texts []string
	objects := make(map[string][]string) // objects with an OK result, by text
	var bad []check.Result
	fine := 0
	for _, r := range list {
		if r.Level != check.OK {
			bad = append(bad, r)
			continue
		}
		fine++
		if r.Gateway != "" {
			r.Text += " (" + r.Gateway + ")"
		}
		if objects[r.Text] == nil {
			texts = append(texts, r.Text)
			objects[r.Text] = []string{}
		}
		if r.Object != "" {
			objects[r.Text] = append(objects[r.Text], r.Object)
		}
	}
	if len(texts) > maxFine {
		s.writeLine(b, check.OK, fmt.Sprintf("%d are fine (%s): -o json has each", fine, list[0].Check))
		texts = nil
	}
	for _, result := range texts {
		if names := objects[result]; len(names) > 0 {
			result = text.Some(names, maxNames) + ": " + result
		}
		s.writeLine(b, check.OK, result)
	}
	s.writeBad(b, bad)
}

// writeBad writes the results that are not OK, with their hints. The worst results come first.
func (s *checkState) writeBad(b *bytes.Buffer, bad []check.Result) {
	slices.SortStableFunc(bad, func(x, y check.Result) int { return check.Rank(y.Level) - check.Rank(x.Level) })
	for i, r := range bad[:min(len(bad), maxLines)] {
		s.writeLine(b, r.Level, resultLine(r))
		if last := i == min(len(bad), maxLines)-1; r.Hint != "" && (last || bad[i+1].Hint != r.Hint) {
			fmt.Fprintf(b, "      %s %s\n", s.marks.hint, Printable(r.Hint))
		}
	}
	if more := len(bad) - maxLines; more > 0 {
		s.writeLine(b, bad[maxLines].Level, fmt.Sprintf("%d more like these: -o json has all", more))
	}
}

func (s *checkState) writeLine(b *bytes.Buffer, level check.Level, text string) {
	fmt.Fprintf(b, "  %s %s\n", levelColors[level].paint(s.marks.byLevel[level]), Printable(text))
}

func (s *checkState) summary() string {
	var parts []string
	for _, n := range []struct {
		found     int
		one, many string
	}{
		{s.Failures, "failure", "failures"},
		{s.Warnings, "warning", "warnings"},
		{s.Unchecked, "not checked", "not checked"},
	} {
		if n.found > 0 {
			parts = append(parts, text.Count(n.found, n.one, n.many))
		}
	}
	if len(parts) == 0 {
		return fmt.Sprintf("All is fine: %s.", text.Count(len(s.Results), "check", "checks"))
	}
	return strings.Join(parts, ", ") + "."
}

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

// resultKey identifies the results that different replicas report for the same check and object.
type resultKey struct{ check, object string }

// alike reports whether all lists contain the same levels. All lists are for the same check and
// object, and each list contains the results of one replica.
func alike(lists [][]check.Result) bool {
	for _, list := range lists[1:] {
		if !slices.EqualFunc(lists[0], list, func(a, b check.Result) bool { return a.Level == b.Level }) {
			return false
		}
	}
	return true
}

// The runs function splits a list wherever the key of an element differs from the key of the
// previous element.
func runs(list []check.Result, of func(check.Result) string) (all [][]check.Result) {
	for i, r := range list {
		if i == 0 || of(r) != of(list[i-1]) {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], r)
	}
	return all
}

// marks contains one symbol for each level, and the symbol that marks a hint.
type marks struct {
	byLevel map[check.Level]string
	hint    string
}

var (
	unicodeMarks = marks{
		map[check.Level]string{check.OK: "✓", check.Warning: "‼", check.Failure: "✗", check.Unchecked: "?"},
		"→",
	}
	asciiMarks = marks{
		map[check.Level]string{
			check.OK: "[ok]  ", check.Warning: "[warn]", check.Failure: "[fail]", check.Unchecked: "[skip]",
		},
		"->",
	}
)

// marksOf returns Unicode or ASCII marks, depending on the locale in the environment variables.
func marksOf(getenv func(string) string) marks {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := strings.ToLower(getenv(name)); value != "" { // the first one that is set decides, as in setlocale
			if strings.Contains(value, "utf-8") || strings.Contains(value, "utf8") {
				return unicodeMarks
			}
			break
		}
	}
	return asciiMarks
}

var levelColors = map[check.Level]color{
	check.OK: green, check.Warning: yellow, check.Failure: red, check.Unchecked: plain,
}

const checkIntro = `isthmus check checks everything that Isthmus needs: API servers, permissions, link Secrets
and their expiry, clocks, trust anchors, Pod networks, federated services, and replicas. For
each problem, the command says what to do.

The command evaluates the pages /debug/clusters and /debug/services of each replica, because
replicas see the clusters from their own network and with the links' credentials. A replica
that is not ready counts as a failure and is not queried. Replicas read trust anchors and
Pod networks again for this command. If a cluster does not respond within 2 s, the command
shows the age of its anchors and networks. If no replica is ready, the command fails, and
checks the clusters from this machine with your kubeconfig. With --pre, it does so without
looking for replicas. With --admin, it queries only that replica and does not use your
kubeconfig.

Usage: isthmus check [FLAGS]`

const checkEnding = `Marks (plain text where the locale is not UTF-8):
  ✓ [ok]    fine
  ‼ [warn]  works, but only in part, or will soon fail
  ✗ [fail]  does not work
  ? [skip]  could not be checked, because it does not respond or may not be read

-o json prints one object per line. go doc isthmus/internal/adminapi.CheckOutput
explains its fields. Objects are clusters, Secrets, Services (NAMESPACE/NAME) or replicas.

The exit code is 1 if a check has failed or if nothing could be checked. Warnings do not
change the exit code.

Examples:
  isthmus check --pre && kubectl apply -k manifests/install
  isthmus check
  isthmus check --context west -n linkerd
  isthmus check --wait 5m && kubectl apply -f federated-services.yaml
  isthmus check -o json | jq -r '.results[] | select(.level == "failure") | .text'`
