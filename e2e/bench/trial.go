package bench

import (
	"time"

	"isthmus/e2e/bench/fleet"
)

// Trial is one thing that is measured: with what clusters, what is done to a server, and the figures that come of it.
type Trial struct {
	Name    string
	Figures []Figure
	Sizes   []int  // it is made at each of these, to show how costs grow; nil: at one size
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

// Trials are what make bench makes, in this order.
func Trials(s Scale) []Trial {
	return []Trial{
		idle(s),
		connect(s, "connect local", false),
		connect(s, "connect federated", true),
		proxies(s, "proxies 3,000 × 4", s.Proxies.Many),
		proxies(s, "proxies 1,000 × 20", s.Proxies.Busy),
		fanOut(s, "fan-out local", false),
		fanOut(s, "fan-out federated", true),
		spill(s),
		coldStart(s, "cold start 3 × 5,000", s.Cold),
		coldStart(s, "cold start 20 × 10,000", s.ColdLarge),
		hotService(s),
		manyClusters(s),
		viewers(s),
		exports(s),
	}
}

// Growth are what make growth makes, in this order: how costs grow.
func Growth(s Scale) []Trial {
	return []Trial{
		changeBySize(s),
		changeByClusters(s),
		subscription(s),
		crowdByStreams(s),
		crowdByConns(s),
		linkedClusters(s),
	}
}
