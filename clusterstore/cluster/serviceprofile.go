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

	"go.uber.org/zap"
	quantity "k8s.io/apimachinery/pkg/api/resource"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/follow"
	"isthmus/federation"
	"isthmus/internal/text"
)

// profileKind translates each ServiceProfile when it is read. Even an unusable ServiceProfile is
// cached, because it still hides other ServiceProfiles for the same Service.
func profileKind(c *Cluster) follow.Kind[*decode.ServiceProfile, *translatedProfile] {
	profiles := &c.cache.local.profiles
	return follow.Kind[*decode.ServiceProfile, *translatedProfile]{
		Name:    "serviceprofiles",
		Source:  c.cfg.Client.Sources.Profiles,
		Serves:  c.serves(decode.ProfileVersion.WithResource("serviceprofiles")),
		Compact: func(o *decode.ServiceProfile) (*translatedProfile, bool) { return translateProfile(o), true },
		Into:    mapStore(c.cache, profiles.byKey, (*translatedProfile).Equal, profiles.set),
		Changed: func(key string, f *translatedProfile, exists bool) { logUnusable(c.cfg.Log, key, f, exists) },
	}
}

func logUnusable(log *zap.Logger, key string, f *translatedProfile, exists bool) {
	if !exists || f.Problem == "" {
		return
	}
	message := "part of a ServiceProfile cannot be used"
	if f.Profile == nil {
		message = "a ServiceProfile cannot be used"
	}
	log.Warn(message, zap.String("profile", key), zap.String("reason", f.Problem))
}

type profileIndex struct {
	local    *Local
	byKey    map[string]*translatedProfile
	rejected int // number of ServiceProfiles that cannot be used at all
}

func newProfileIndex(l *Local) profileIndex {
	return profileIndex{local: l, byKey: make(map[string]*translatedProfile)}
}

func (x *profileIndex) set(key string, before, now *translatedProfile) {
	if before != nil && before.Profile == nil {
		x.rejected--
	}
	if now != nil && now.Profile == nil {
		x.rejected++
	}
	problem := ""
	if now != nil {
		problem = now.Problem
	}
	x.local.cache.setUnusable("ServiceProfile "+key, problem)
	namespace, name := follow.SplitKey(key)
	if id, ok := profiled(name); ok {
		x.local.markTopic(namespace, Topic{Service: id})
		if e := x.local.cache.services.byID[id]; e != nil && e.spec != nil {
			for _, ip := range e.spec.ClusterIPs {
				x.local.markAddress(namespace, ip)
			}
		}
	}
}

// profiled returns the Service to which a ServiceProfile with the given name belongs.
func profiled(name string) (federation.ServiceID, bool) {
	parts := strings.SplitN(name, ".", 4)
	if len(parts) < 4 || parts[2] != "svc" {
		return federation.ServiceID{}, false
	}
	return federation.ServiceID{Namespace: parts[1], Name: parts[0]}, true
}

const (
	// maxProfile is the maximum size, in bytes, of an encoded ServiceProfile. Proxies accept
	// messages of up to 4 MiB. The estimated size of a ServiceProfile is an upper bound, with one
	// exception: the name of an HTTP method may become up to 50% longer when it is converted to
	// uppercase.
	maxProfile = 2 << 20
	// sizePerPart is the estimated size of one part of a ServiceProfile, excluding its strings.
	sizePerPart = 48
	// maxNested is the maximum nesting depth of conditions. Each level of conditions is encoded as
	// two nested messages, and proxies decode at most 100 levels of nested messages.
	maxNested = 30
)

// translatedProfile is the immutable result of translating a ServiceProfile.
type translatedProfile struct {
	Profile *federation.ServiceProfile // nil if the ServiceProfile cannot be used
	// Problem describes why Isthmus or the proxies cannot use all or part of the ServiceProfile.
	// The text is empty if the whole ServiceProfile can be used.
	Problem string
}

// translateProfile translates a ServiceProfile (Linkerd's custom resource for routes) into a
// [federation.ServiceProfile], which can be sent to proxies.
//
//	t := translateProfile(o)
//	if t.Profile == nil {
//		log.Warn("the ServiceProfile cannot be used", zap.String("reason", t.Problem))
//	}
//
// A request condition may have two fields, as in this example:
//
//	method: GET
//	pathRegex: /cart/.*
//
// All fields of a condition must match, so the example becomes one [federation.Match] of kind
// MatchAll with two elements in Sub. If a status range has only one bound, the translated range
// contains only the status code of that bound. Proxies receive weights as integers: a weight of
// "500m" becomes 5,000, and a weight of 1 becomes 10,000.
//
// translateProfile runs quickly for any spec, and its result can be encoded and sent. All strings
// are valid UTF-8. The nesting depth of conditions and the total size stay below the limits that
// proxies impose. Equal specs yield equal results. The translateProfile function is safe for
// concurrent use.
//
// A Problem begins with the path of the field, as in "routes[0] \"r\": condition: …". A Problem
// contains at most 500 bytes and is safe to log and display.
//
// If a part of a ServiceProfile is invalid, the whole ServiceProfile is rejected, because the valid
// parts alone may mean the opposite of the whole. An invalid timeout is ignored, but the
// ServiceProfile is still used. Opaque ports in a ServiceProfile are ignored, because proxies use
// the opaque ports of the Service instead.
//
// Proxies discard a retry budget if its ttl is below 1 s or above 1 min, its ratio is above 1,000,
// or its minRetriesPerSecond is above 2,147,483,647. Proxies ignore a status range that has neither
// a minimum nor a maximum. If API servers accept a value that proxies discard or ignore, the
// translation preserves the value, and the Problem mentions it.
func translateProfile(o *decode.ServiceProfile) *translatedProfile {
	if o.Invalid != "" {
		return &translatedProfile{Problem: text.Clean(o.Invalid, text.Long)}
	}
	var t translator
	p, err := t.profile(o)
	if err != nil {
		return &translatedProfile{Problem: text.Clean(err.Error(), text.Long)}
	}
	return &translatedProfile{Profile: p, Problem: t.describe(p)}
}

func (t *translatedProfile) Equal(o *translatedProfile) bool {
	return t != nil && t.Problem == o.Problem && reflect.DeepEqual(t.Profile, o.Profile)
}

type translator struct {
	size        int    // estimated size of the parts translated so far
	problem     string // problem with the first part that Isthmus or proxies ignore
	emptyStatus bool   // a status range without a minimum and a maximum was translated
}

func (t *translator) describe(p *federation.ServiceProfile) string {
	if why := discarded(p.Budget); why != "" {
		budget := "retryBudget: proxies discard this retry budget, and do not retry requests to the Service: " + why
		return text.Clean(strings.TrimSuffix(budget+"; "+t.problem, "; "), text.Long)
	}
	return text.Clean(t.problem, text.Long)
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
	if p.Budget, err = translateBudget(o.Spec.RetryBudget); err != nil {
		return nil, fmt.Errorf("retryBudget: %w", err)
	}
	return p, nil
}

type madeRoute struct {
	federation.Route
	problem error
}

func (t *translator) route(r *decode.RouteSpec) (made madeRoute, err error) {
	made.Name = r.Name
	made.Retryable = r.IsRetryable
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
		timeout, err := parseDuration("timeout", r.Timeout)
		made.Timeout = max(timeout, 0)
		made.problem = cmp.Or(err, made.problem)
	}
	return made, nil
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
	w, err := translateWeight(string(d.Weight))
	if err != nil {
		return federation.Override{}, fmt.Errorf("weight: %w", err)
	}
	return federation.Override{Authority: d.Authority, Weight: w}, nil
}

// The spend method returns an error if the ServiceProfile becomes too large, or if the part is not
// valid UTF-8.
func (t *translator) spend(part string) error {
	t.size += sizePerPart + len(part)
	switch {
	case t.size > maxProfile:
		return fmt.Errorf("the ServiceProfile is too large: its encoding exceeds %d bytes", maxProfile)
	case !utf8.ValidString(part):
		return errors.New("not UTF-8")
	}
	return nil
}

func parseDuration(name, value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is not a duration", name, text.Truncate(value, text.Short))
	}
	return d, nil
}

func translateBudget(b *decode.RetryBudget) (*federation.RetryBudget, error) {
	if b == nil {
		return nil, nil
	}
	ttl, err := parseDuration("ttl", b.TTL)
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

// Proxies discard a retry budget that is outside the following limits.
const (
	minTTL       = time.Second
	maxTTL       = time.Minute
	maxRatio     = 1000
	maxPerSecond = math.MaxInt32
)

// discarded returns the reason why proxies discard a retry budget. The result is "" if proxies
// accept the budget. Proxies that have discarded the retry budget do not retry requests. A nil
// budget means the default budget.
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

var (
	errNull  = errors.New("null or missing")
	errEmpty = errors.New("no field is set")
	// errEmptyStatus describes a status range that proxies ignore. A ServiceProfile that contains
	// an ignored status range is still usable.
	errEmptyStatus = errors.New("responseClasses: a status has neither min nor max, so proxies ignore this status")
)

// messageSide specifies whether a condition applies to requests or responses.
type messageSide bool

const (
	ofRequest  messageSide = false
	ofResponse messageSide = true
)

// condition translates a condition. A condition with several fields becomes a MatchAll list of the
// translated fields, which adds one level of nesting. Fields that do not apply to the given side
// (request or response) are ignored, like unknown fields.
func (t *translator) condition(spec *decode.Match, of messageSide, depth int) (all federation.Match, err error) {
	if spec == nil {
		return all, errNull
	}
	type read = func(depth int) (federation.Match, error)
	leaf := func(m federation.Match, err error) read {
		return func(int) (federation.Match, error) { return m, err }
	}
	var fields []read // in the order in which proxies receive them
	if spec.All != nil {
		fields = append(fields, t.list("all", federation.MatchAll, spec.All, of))
	}
	if spec.Any != nil {
		fields = append(fields, t.list("any", federation.MatchAny, spec.Any, of))
	}
	if spec.Method != "" && of == ofRequest {
		fields = append(fields, leaf(federation.Match{Kind: federation.MatchMethod, Text: spec.Method}, nil))
	}
	if s := spec.Status; s != nil && of == ofResponse {
		fields = append(fields, leaf(t.status(s)))
	}
	if spec.Not != nil {
		fields = append(fields, func(depth int) (federation.Match, error) {
			one, err := t.condition(spec.Not, of, depth+1)
			if err != nil {
				err = fmt.Errorf("not: %w", err)
			}
			return federation.Match{Kind: federation.MatchNot, Sub: []federation.Match{one}}, err
		})
	}
	if spec.PathRegex != "" && of == ofRequest {
		fields = append(fields, leaf(federation.Match{Kind: federation.MatchPath, Text: spec.PathRegex}, nil))
	}
	all.Kind = federation.MatchAll
	if len(fields) > 1 {
		depth, err = depth+1, t.spend("")
	}
	switch {
	case len(fields) == 0:
		return all, errEmpty
	case depth > maxNested:
		return all, fmt.Errorf("conditions are nested deeper than %d", maxNested)
	}
	for _, field := range fields {
		if err != nil {
			return all, err
		}
		var one federation.Match
		if one, err = field(depth); err == nil {
			err = t.spend(one.Text)
		}
		all.Sub = append(all.Sub, one)
	}
	if len(all.Sub) == 1 {
		return all.Sub[0], err
	}
	return all, err
}

// list returns a function that translates the "all" field or the "any" field, each of which
// contains a list of conditions.
func (t *translator) list(
	name string, kind federation.MatchKind, from []*decode.Match, of messageSide,
) func(depth int) (federation.Match, error) {
	return func(depth int) (federation.Match, error) {
		m := federation.Match{Kind: kind}
		for i, spec := range from {
			one, err := t.condition(spec, of, depth+1)
			if err != nil {
				return m, fmt.Errorf("%s[%d]: %w", name, i, err)
			}
			m.Sub = append(m.Sub, one)
		}
		return m, nil
	}
}

// The status method converts a range of status codes to a condition for proxies. If only one bound
// of the range is set, this bound serves as both the minimum and the maximum, because proxies
// ignore a condition with a zero bound.
func (t *translator) status(s *decode.Range) (federation.Match, error) {
	m := federation.Match{Kind: federation.MatchStatus, Min: cmp.Or(s.Min, s.Max), Max: cmp.Or(s.Max, s.Min)}
	for _, code := range []uint32{s.Min, s.Max} {
		if code != 0 && (code < 100 || code > 599) {
			return m, fmt.Errorf("status: code %d is not from 100 to 599", code)
		}
	}
	if m.Max < m.Min {
		return m, fmt.Errorf("status: range %d-%d is empty", s.Min, s.Max)
	}
	t.emptyStatus = t.emptyStatus || m.Min == 0
	return m, nil
}

// weightUnits is the integer that proxies receive for a weight of 1.
const weightUnits = 10_000

// translateWeight translates a weight, which is a Kubernetes quantity. An empty weight is zero. A
// weight that is too large for proxies becomes the largest weight that they accept.
func translateWeight(value string) (uint32, error) {
	if value == "" {
		return 0, nil
	}
	q, err := readQuantity(value)
	switch {
	case err != nil:
		return 0, err
	case q.Sign() < 0:
		return 0, fmt.Errorf("%s is negative", value)
	case q.CmpInt64(math.MaxUint32/weightUnits) > 0:
		return math.MaxUint32, nil
	}
	return uint32(q.MilliValue() * (weightUnits / 1000)), nil
}

// readQuantity parses a Kubernetes quantity. Quantities such as 1e999999999, which would take a
// long time to parse, are rejected.
func readQuantity(value string) (quantity.Quantity, error) {
	number, exponent, _ := strings.Cut(strings.ToLower(value), "e")
	if len(number) > 40 || len(exponent) > 3 {
		return quantity.Quantity{}, fmt.Errorf("%q is too long", text.Truncate(value, text.Short))
	}
	q, err := quantity.ParseQuantity(value)
	if err != nil {
		return q, fmt.Errorf("%q is not a quantity", text.Truncate(value, text.Short))
	}
	return q, nil
}
