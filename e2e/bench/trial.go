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

	// it is done to the gateway, and then to the floor, which sends what one stream of each service
	// was sent
	floor   bool
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
	overview      = "performance.md#what-isthmus-costs"
	optimizations = "performance.md#optimizations-and-their-gains"
	lostClusters  = "performance.md#copies-of-lost-clusters"
	sizing        = "operations.md#sizing"
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
		fanOut(s, "fan-out local", optimizations, false),
		fanOut(s, "fan-out federated", overview, true),
		mostStreams(s),
		spill(s),
		coldStart(s, "cold start 3 × 5,000", sizing, s.Cold),
		coldStart(s, "cold start 20 × 10,000", overview, s.ColdLarge),
		hotService(s),
		manyClusters(s),
		viewers(s),
		exports(s),
		copies(s),
		changeBySize(s),
		changeByClusters(s),
		subscription(s),
		crowdByStreams(s),
		crowdByConns(s),
		linkedClusters(s),
	}
	return slices.DeleteFunc(all, func(t Trial) bool { return (t.Sizes != nil) != (mode == Growth) })
}

// Scale is how much is measured with.
type Scale struct {
	Web, App ServicesScale
	Streams  int
	Conns    int
	Flips    int // of one endpoint under open streams
	Repeats  int // of short trials
	Proxies  ProxiesScale
	Most     MostScale

	Spill           SpillScale
	Cold, ColdLarge ColdScale
	Hot             HotScale
	Many            ManyScale
	Viewers         ViewersScale
	Exports         ExportsScale
	Copies          CopiesScale
	Growth          GrowthScale

	Settle time.Duration // how long a fresh server has, at most, to give back memory that it needed to start
	Idle   time.Duration // how long each run of a trial waits, at most, for idle processors
}

// Full is the scale that the targets are for.
func Full() Scale {
	return Scale{
		Web: ServicesScale{100, 50}, App: ServicesScale{1000, 5},
		Streams: 10_000, Conns: 100, Flips: 50, Repeats: 3, Settle: 10 * time.Second, Idle: 20 * time.Second,
		Proxies: ProxiesScale{Crowd: Crowd{1000, 20}, Changed: 250, Rate: 300},
		Most:    MostScale{Few: Crowd{1000, 4}, Most: Crowd{4000, 4}},
		Cold: ColdScale{
			Clusters:  3,
			Services:  1000,
			Endpoints: 5,
			Repeats:   3,
		}, ColdLarge: ColdScale{Clusters: 20, Services: 1000, Endpoints: 10, Repeats: 2},
		Hot: HotScale{Proxies: Crowd{1000, 20}, Slices: 50, Endpoints: 100, Over: time.Minute},
		Spill: SpillScale{
			Services:  1000,
			Endpoints: 50,
			Pods:      5000,
			Over:      30 * time.Second,
			After:     10 * time.Second,
			Return:    5 * time.Second,
		},
		Many: ManyScale{Linked: 250, Services: 100, Endpoints: 10, Spread: 25, Streams: 10_000, Conns: 2000,
			Rates: Rates{Node: 0.1, Endpoint: 1, Label: 0.2}, Over: time.Minute},
		Viewers: ViewersScale{
			Viewers: 10,
			ManyScale: ManyScale{Linked: 250, Services: 40, Endpoints: 2, Spread: 2, Streams: 5000, Conns: 500,
				Rates: Rates{Endpoint: 0.4}, Over: 30 * time.Second},
		},
		Exports: ExportsScale{
			Exports: 500,
			Changes: 100,
			ManyScale: ManyScale{Linked: 10, Services: 1000, Endpoints: 5, Spread: 10, Streams: 10_000, Conns: 1000,
				Rates: Rates{Endpoint: 10}, Over: time.Minute},
		},
		Copies: CopiesScale{Linked: 20, Services: 1000, Endpoints: 10},
		Growth: GrowthScale{
			Endpoints: []int{100, 1000, 10_000}, Clusters: []int{1, 10, 50}, Services: []int{10, 1000, 10_000},
			Changes: 400, Streams: 10_000, Conns: 100,
			Crowds: CrowdScale{
				Services:  1000,
				Endpoints: 10,
				Streams:   []int{1200, 12_000, 120_000},
				Each:      12,
				Conns:     []int{100, 1000, 10_000},
				Of:        12_000,
			},
			Linked: LinkedScale{
				Clusters:  []int{20, 200, 2000},
				Services:  10,
				Endpoints: 10,
				Spread:    20,
				Rest:      15 * time.Second,
			},
		},
	}
}

// web is Services with many Pods, and app Services with few, in three clusters.
func (s Scale) web(int) fleet.Config { return s.Web.fleet() }

func (s Scale) app(int) fleet.Config { return s.App.fleet() }
