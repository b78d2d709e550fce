package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"isthmus/clusterstore/decode"
	"isthmus/federation"
	"isthmus/internal/text"
)

// Limits of a ServiceProfile.
const (
	// maxProfile is the largest encoded size in bytes, estimated from above:
	// proxies take messages of 4 MiB. (A method in capital letters may be half as
	// long again.)
	maxProfile = 2 << 20
	// perPart is the estimated size of a part without its texts.
	perPart = 48
	// maxNested is how deep conditions may be nested: each takes two messages, and
	// proxies decode 100 nested ones.
	maxNested = 30
)

// Translated is the result of translating a ServiceProfile. It is immutable.
type Translated struct {
	Profile *federation.ServiceProfile // nil: it can't be used
	// Problem is why the ServiceProfile, or a part of it, can't be used here or by proxies. If all
	// of it can be used, Problem is empty.
	Problem string
}

// Translate translates a ServiceProfile. Equal ones give equal results, and a Problem
// is safe to log and show.
func Translate(o *decode.ServiceProfile) *Translated {
	if o.Invalid != "" {
		return &Translated{Problem: text.Clean(o.Invalid, text.Long)}
	}
	var t translator
	p, err := t.profile(o)
	if err != nil {
		return &Translated{Problem: text.Clean(err.Error(), text.Long)}
	}
	return &Translated{Profile: p, Problem: t.describe(p)}
}

// describe describes what can't be used of a ServiceProfile that is used. Empty means all of it can.
func (t *translator) describe(p *federation.ServiceProfile) string {
	if why := discarded(p.Budget); why != "" {
		budget := "retryBudget: proxies discard it and retry no request to the Service: " + why
		return text.Clean(strings.TrimSuffix(budget+"; "+t.problem, "; "), text.Long)
	}
	return text.Clean(t.problem, text.Long)
}

// Equal reports whether both have the same content. A nil receiver is equal to
// nothing.
func (t *Translated) Equal(o *Translated) bool {
	return t != nil && t.Problem == o.Problem && reflect.DeepEqual(t.Profile, o.Profile)
}

// translator translates one ServiceProfile.
type translator struct {
	size        int    // estimated, so far
	problem     string // of the first part that is left out, here or by proxies
	emptyStatus bool   // a status with neither bound was translated
}

func (t *translator) profile(o *decode.ServiceProfile) (*federation.ServiceProfile, error) {
	p := &federation.ServiceProfile{Namespace: o.Namespace, Name: o.Name}
	for i, r := range o.Spec.Routes {
		if r == nil {
			return nil, fmt.Errorf("routes[%d] is null", i)
		}
		made, err := t.route(r)
		if err != nil {
			return nil, fmt.Errorf("routes[%d] %q: %w", i, text.Truncate(r.Name, text.Short), err)
		}
		if made.problem != nil && t.problem == "" {
			t.problem = fmt.Sprintf("routes[%d] %q: %v", i, text.Truncate(r.Name, text.Short), made.problem)
		}
		p.Routes = append(p.Routes, made.Route)
	}
	for i, d := range o.Spec.DstOverrides {
		made, err := t.override(d)
		if err != nil {
			return nil, fmt.Errorf("dstOverrides[%d]: %w", i, err)
		}
		p.Overrides = append(p.Overrides, made)
	}
	var err error
	if p.Budget, err = budget(o.Spec.RetryBudget); err != nil {
		return nil, fmt.Errorf("retryBudget: %w", err)
	}
	return p, nil
}

// madeRoute is a route, and why a part of it is left out.
type madeRoute struct {
	federation.Route
	problem error
}

func (t *translator) route(r *decode.RouteSpec) (made madeRoute, err error) {
	made.Name, made.Retryable = r.Name, r.IsRetryable
	if err := t.spend(r.Name); err != nil {
		return made, err
	}
	if made.Condition, err = t.condition(r.Condition, ofRequest, 1); err != nil {
		return made, fmt.Errorf("condition: %w", err)
	}
	for i, c := range r.ResponseClasses {
		if c == nil {
			return made, fmt.Errorf("responseClasses[%d] is null", i)
		}
		if err := t.spend(""); err != nil {
			return made, err
		}
		m, err := t.condition(c.Condition, ofResponse, 1)
		if err != nil {
			return made, fmt.Errorf("responseClasses[%d]: condition: %w", i, err)
		}
		made.Classes = append(made.Classes, federation.ResponseClass{Condition: m, Failure: c.IsFailure})
	}
	if t.emptyStatus {
		made.problem = errEmptyStatus
		t.emptyStatus = false
	}
	if r.Timeout != "" {
		timeout, err := duration("timeout", r.Timeout)
		made.Timeout = max(timeout, 0)
		made.problem = cmp.Or(err, made.problem)
	}
	return made, nil
}

// spend adds the size of one part. It returns an error if the whole becomes too large,
// or the part is not UTF-8.
func (t *translator) spend(part string) error {
	t.size += perPart + len(part)
	switch {
	case t.size > maxProfile:
		return fmt.Errorf("the ServiceProfile is too large: encoded it has more than %d bytes", maxProfile)
	case !utf8.ValidString(part):
		return errors.New("not UTF-8")
	}
	return nil
}

func duration(name, value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is not a duration", name, text.Truncate(value, text.Short))
	}
	return d, nil
}

func budget(b *decode.RetryBudget) (*federation.RetryBudget, error) {
	if b == nil {
		return nil, nil
	}
	ttl, err := duration("ttl", b.TTL)
	switch ratio := float64(b.RetryRatio); {
	case err != nil:
		return nil, err
	case ttl < 0:
		return nil, fmt.Errorf("ttl: %v is negative", ttl)
	case !(ratio >= 0) || math.IsInf(ratio, 0):
		return nil, fmt.Errorf("retryRatio is %v: it must be a finite number, 0 or more", ratio)
	}
	return &federation.RetryBudget{Ratio: b.RetryRatio, MinPerSecond: b.MinRetriesPerSecond, TTL: ttl}, nil
}

// Bounds of the retry budgets that proxies accept.
const (
	minTTL       = time.Second
	maxTTL       = time.Minute
	maxRatio     = 1000
	maxPerSecond = math.MaxInt32
)

// discarded returns why proxies discard a retry budget. They then retry nothing. Empty means that
// proxies use the budget. If b is nil, that is the default.
func discarded(b *federation.RetryBudget) string {
	if b == nil {
		return ""
	}
	var why []string
	if b.TTL < minTTL || b.TTL > maxTTL {
		why = append(why, fmt.Sprintf("ttl %v is not from %v to %v", b.TTL, minTTL, maxTTL))
	}
	if b.Ratio > maxRatio {
		why = append(why, fmt.Sprintf("retryRatio %v is more than %d", b.Ratio, maxRatio))
	}
	if b.MinPerSecond > maxPerSecond {
		why = append(why, fmt.Sprintf("minRetriesPerSecond %d is more than %d", b.MinPerSecond, maxPerSecond))
	}
	return strings.Join(why, ", and ")
}

func (t *translator) override(d *decode.WeightedDst) (federation.Override, error) {
	if d == nil {
		return federation.Override{}, errNull
	}
	if d.Authority == "" {
		return federation.Override{}, errors.New("authority is missing")
	}
	if err := t.spend(d.Authority); err != nil {
		return federation.Override{}, fmt.Errorf("authority: %w", err)
	}
	w, err := weight(string(d.Weight))
	if err != nil {
		return federation.Override{}, fmt.Errorf("weight: %w", err)
	}
	return federation.Override{Authority: d.Authority, Weight: w}, nil
}
