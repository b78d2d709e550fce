package bench

import (
	"slices"
	"time"

	"isthmus/e2e/bench/fleet"
)

// Trial is one thing that is measured: with what clusters, what is done to a server, and the figures that come of it.
type Trial struct {
	Name    string
	Claims  string // the section of the documentation that rests on the figures: PAGE.md#HEADING, below docs
	Figures []Figure
	Sizes   []int  // the trial is made at each size, to show how costs grow. If nil, the trial has one size
	Of      string // what the sizes count, such as clusters

	floor   bool // it is done to the gateway, and then to the floor, which sends what one stream of each service was sent
	repeats int
	fleet   func(size int) fleet.Config // the clusters
	do      func(*run)                  // sets the figures, for the run's kind of server
}

// Figure is one number of a trial, and its target.
type Figure struct {
	Key      string  // in a Sample
	Label    string  // what it is, in words
	Unit     string  `json:",omitempty"`
	MaxRatio float64 `json:",omitempty"` // times the floor's; 0: there is no such target
	Max      float64 `json:",omitempty"` // in the unit; 0: there is no such target
}

// Sample is what one run of a trial measured, by the figures' keys. It may have more.
type Sample map[string]float64

// Kind is which server a number belongs to.
type Kind string

// The kinds of servers.
const (
	Floor   Kind = "floor"
	Gateway Kind = "gateway"
)

// kinds returns the kinds of servers that the trial is done to, in this order.
func (t Trial) kinds() []Kind {
	if t.floor {
		return []Kind{Gateway, Floor}
	}
	return []Kind{Gateway}
}

// Targets, times the floor.
const (
	atFloor   = 1.5 // of nearly all figures
	asProxies = 1.3 // of streams that are spread as proxies have them
)

// runLimit is how long one run of a trial may take.
const runLimit = 6 * time.Minute

// Sections of the documentation that rest on trials.
const (
	overview = "performance.md#what-the-gateway-costs"
	notPlain = "performance.md#what-is-not-done-in-the-plain-way"
	sizing   = "operations.md#sizing"
)

// Mode chooses trials.
type Mode string

// The modes.
const (
	Costs  Mode = "bench"  // trials of one size: make bench
	Growth Mode = "growth" // trials of several sizes, which show how costs grow: make growth
)

// Trials returns the trials of a mode, in the order in which they are made.
func Trials(s Scale, mode Mode) []Trial {
	all := []Trial{
		connect(s),
		proxies(s),
		fanOut(s, "fan-out local", notPlain, false),
		fanOut(s, "fan-out federated", overview, true),
		mostStreams(s),
		spill(s),
		coldStart(s, "cold start 3 × 5,000", sizing, s.Cold),
		coldStart(s, "cold start 20 × 10,000", overview, s.ColdLarge),
		hotService(s),
		manyClusters(s),
		viewers(s),
		exports(s),
		changeBySize(s),
		changeByClusters(s),
		subscription(s),
		crowdByStreams(s),
		crowdByConns(s),
		linkedClusters(s),
	}
	return slices.DeleteFunc(all, func(t Trial) bool { return (t.Sizes != nil) != (mode == Growth) })
}
