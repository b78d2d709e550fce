package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"isthmus/e2e/harness"
	"isthmus/internal/apisim"
)

// fault is a lasting fault of a cluster.
type fault struct {
	name string
	away bool // changes in the cluster do not reach Isthmus
}

// faultKind describes a fault and how it begins.
type faultKind struct {
	name  string
	away  bool
	begin func(*world, *cluster) error
}

// FaultNames returns the names of all faults that clusters can have.
func FaultNames() (names []string) {
	for _, k := range slices.Concat(lastingFaults, briefFaults) {
		names = append(names, k.name)
	}
	return names
}

// These faults matter to the checks. After optional and hostile, Isthmus may take up to lag or
// longLag to list the cluster again. The longer an endless response took, the longer Isthmus backs
// off.
const (
	refuse   = "refuse"   // connections are refused, which Isthmus notices at once
	optional = "optional" // optional resources are forbidden
	hostile  = "hostile"  // responses do not end
	lag      = 30 * time.Second
	longLag  = time.Minute
)

// lastingFaults last until they are healed.
var lastingFaults = []faultKind{
	{refuse, true, func(_ *world, c *cluster) error {
		err := c.proxy.Set(harness.FaultMode{Refuse: true})
		c.proxy.ResetAll()
		return err
	}},
	{"silent", true, func(_ *world, c *cluster) error { return c.proxy.Set(harness.Silent) }},
	{"half-open", true, func(_ *world, c *cluster) error {
		return c.proxy.Set(harness.FaultMode{Down: harness.FaultPath{Stop: true}})
	}},
	{"slow", false, func(w *world, c *cluster) error {
		delay := time.Duration(10+w.rng.IntN(150)) * time.Millisecond
		return c.proxy.Set(
			harness.FaultMode{Up: harness.FaultPath{Delay: delay}, Down: harness.FaultPath{Delay: delay}},
		)
	}},
	{"narrow", false, func(w *world, c *cluster) error {
		return c.proxy.Set(harness.FaultMode{Down: harness.FaultPath{Rate: 100_000 + w.rng.IntN(400_000)}})
	}},
	{"unauthorized", true, func(_ *world, c *cluster) error { return misbehave(c, apisim.Faults{Unauthorized: true}) }},
	{"forbidden", true, func(w *world, c *cluster) error {
		return misbehave(c, apisim.Faults{Forbidden: []string{pick(w, []string{"services", "pods", "endpointslices"})}})
	}},
	{optional, true, func(w *world, c *cluster) error {
		return misbehave(
			c, apisim.Faults{Forbidden: []string{pick(w, []string{"servers", "replicasets", "serviceexports", "*"})}},
		)
	}},
	{"failing", true, func(w *world, c *cluster) error {
		return misbehave(c, apisim.Faults{Failing: pick(w, []int{429, 500, 503, 504})})
	}},
	{hostile, true, func(w *world, c *cluster) error {
		ways := []apisim.Endless{apisim.EndlessEvent, apisim.EndlessPages, apisim.EndlessLists}
		if c.number == 0 {
			ways = ways[:1] // the local cluster has no memory cap
		}
		return misbehave(c, apisim.Faults{Endless: pick(w, ways)})
	}},
}

// briefFaults end by themselves.
var briefFaults = []faultKind{
	{"reset", false, func(_ *world, c *cluster) error { c.proxy.ResetAll(); return nil }},
	{"cut watches", false, func(_ *world, c *cluster) error { c.api.CutWatches(); return nil }},
	{"gone", false, func(_ *world, c *cluster) error { c.api.Compact(); c.api.CutWatches(); return nil }},
	{"reset and gone", false, func(_ *world, c *cluster) error { c.api.Compact(); c.proxy.ResetAll(); return nil }},
}

// misbehave changes the responses, including those to open watches.
func misbehave(c *cluster, f apisim.Faults) error {
	c.api.Misbehave(f)
	c.api.CutWatches()
	return nil
}

// faultSteps begin and end faults. A cluster has at most one lasting fault.
var faultSteps = []step{
	{"", 4, func(w *world, c *cluster, _ string) string {
		all := chosen(w, briefFaults)
		if len(all) == 0 || c.fault != nil {
			return ""
		}
		k := pick(w, all)
		c.shaken = true
		trouble(w, c)
		w.err = errors.Join(w.err, k.begin(w, c))
		return k.name
	}},
	{"", 4, func(w *world, c *cluster, _ string) string {
		all := chosen(w, lastingFaults)
		if len(all) == 0 || c.fault != nil {
			return ""
		}
		k := pick(w, all)
		c.fault = &fault{k.name, k.away}
		c.shaken = true
		trouble(w, c)
		w.err = errors.Join(w.err, k.begin(w, c))
		return k.name
	}},
	{"heal", 6, func(w *world, c *cluster, _ string) string { return heal(w, c) }},
}

// trouble notes that Isthmus may lose the watches of the cluster.
func trouble(w *world, c *cluster) {
	c.troubled = true
	w.written("") // the cluster may count as lost from now on
}

// chosen returns the kinds that the configuration allows.
func chosen(w *world, from []faultKind) (list []faultKind) {
	for _, k := range from {
		if w.cfg.Faults.MatchString(k.name) {
			list = append(list, k)
		}
	}
	return list
}

func heal(w *world, c *cluster) string {
	if c.fault == nil {
		return ""
	}
	c.api.Misbehave(apisim.Faults{})
	w.err = errors.Join(w.err, c.proxy.Set(harness.FaultMode{}))
	name := c.fault.name
	switch name {
	case optional:
		noteLag(w, lag)
	case hostile:
		noteLag(w, longLag)
	}
	c.fault = nil
	return fmt.Sprintf("%s is over", name)
}

// noteLag notes that the effect of a fault may last for d.
func noteLag(w *world, d time.Duration) {
	if until := time.Now().Add(d); until.After(w.lagging) {
		w.lagging = until
	}
}
