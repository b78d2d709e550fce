package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"isthmus/internal/adminapi"
)

// TestBroken: of much that is wrong at once, isthmus check and isthmus explain find each thing and name what to do. Once
// that is done, they find nothing.
func TestBroken(t *testing.T) {
	t.Parallel()
	w := newBrokenWorld(t, faults)
	await(t, "check finds what it can", func() error { return w.checked(t, faults, 1) })
	// Before explain, which watches services for a moment, so that check knows more of them.
	await(t, "a person sees it", func() error { return w.table(t) })
	for _, f := range faults {
		if f.explain != nil {
			await(t, f.name, func() error { return w.explained(t, f.explain) })
		}
	}
	for _, f := range faults {
		f.repair(t, w)
	}
	await(t, "check finds nothing", func() error { return w.checked(t, nil, 0) })
	for _, f := range faults {
		if f.explain != nil {
			await(t, f.name, func() error {
				if r := w.explain(t, f.explain); r.code != 0 {
					return fmt.Errorf("exit code %d\n%s", r.code, r.stdout)
				}
				return nil
			})
		}
	}
}

// checked returns an error unless isthmus check finds all of these faults, and nothing else.
func (w *brokenWorld) checked(t *testing.T, faults []fault, want int) error {
	code, bad, out := w.check(t, "--admin", w.gateway.MetricsAddr())
	var errs []error
	if code != want {
		errs = append(errs, fmt.Errorf("exit code %d", code))
	}
	for _, f := range faults {
		for _, x := range f.check {
			i := slices.IndexFunc(bad, func(line string) bool { return matches(x.line, line) })
			if i < 0 {
				errs = append(errs, fmt.Errorf("%s: not found: %s", f.name, x.line))
				continue
			}
			if !slices.ContainsFunc(out.Results, func(r adminapi.CheckResult) bool {
				return bad[i] == fmt.Sprintf("%s %s %s: %s", r.Level, r.Check, r.Object, r.Text) && matches(x.hint, r.Hint)
			}) {
				errs = append(errs, fmt.Errorf("%s: %s: no hint %s", f.name, bad[i], x.hint))
			}
			bad = slices.Delete(bad, i, i+1)
		}
	}
	for _, line := range bad {
		errs = append(errs, errors.New("found besides: "+line))
	}
	return errors.Join(errs...)
}

// table returns an error unless a person sees all that is found, and what to do. What a cluster fails by may change from
// one run to the next.
func (w *brokenWorld) table(t *testing.T) error {
	_, _, out := w.check(t, "--admin", w.gateway.MetricsAddr())
	r := runVerb(t, w.isthmus, "check", "--admin", w.gateway.MetricsAddr())
	for _, x := range out.Results {
		if x.Level != "ok" && (!strings.Contains(r.stdout, x.Object) || !strings.Contains(r.stdout, x.Text+"\n") || !strings.Contains(r.stdout, x.Hint)) {
			return fmt.Errorf("%+v is not in\n%s", x, r.stdout)
		}
	}
	return nil
}

func (w *brokenWorld) explain(t *testing.T, v *verdict, args ...string) verbRun {
	t.Helper()
	args = slices.Concat([]string{"explain", "--admin", w.gateway.MetricsAddr()}, args, strings.Fields("shop/"+v.args))
	return runVerb(t, w.isthmus, args...)
}

// explained returns an error unless isthmus explain has the verdict, for programs and for people.
func (w *brokenWorld) explained(t *testing.T, v *verdict) error {
	var page adminapi.Explanation
	r := w.explain(t, v, "-o", "json")
	if err := json.Unmarshal([]byte(r.stdout), &page); err != nil {
		return fmt.Errorf("%w: %s%s", err, r.stdout, r.stderr)
	}
	has := func(a adminapi.ExplainedAddress) bool { return a.Address == v.address && a.Verdict == v.verdict }
	if v.address != "" && !slices.ContainsFunc(page.Addresses, has) {
		return fmt.Errorf("%s is not %s in %+v", v.address, v.verdict, page.Addresses)
	}
	if v.address == "" && len(page.Addresses) > 0 {
		return fmt.Errorf("there are addresses: %+v", page.Addresses)
	}
	text := w.explain(t, v).stdout
	for _, words := range v.words {
		if !regexp.MustCompile(words).MatchString(text) {
			return fmt.Errorf("no %s in\n%s", words, text)
		}
	}
	return nil
}

func matches(pattern, text string) bool {
	return regexp.MustCompile(`^(?:` + pattern + `)$`).MatchString(text)
}
