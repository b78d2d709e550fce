package bench

import (
	"slices"
	"time"

	"isthmus/e2e/bench/fleet"
)

// Trial is a workload for a server in a fleet of clusters, together with the figures that it
// measures.
type Trial struct {
	Name    string
	Claims  string // section of the documentation that relies on the figures: PAGE.md#HEADING in docs
	Figures []Figure
	Sizes   []int  // sizes at which the trial runs, to measure growth; nil means a single size
	Of      string // unit of the sizes, such as clusters

	// If floor is set, the trial also runs on the floor, after the replica. The floor sends the
	// messages that one stream of each service received from the replica.
	floor   bool
	repeats int
	fleet   func(size int) fleet.Config // the clusters for a size
	do      func(*run)                  // the workload, which sets the figures for the run's kind of server
}

// Figure is a measured number with its targets.
type Figure struct {
	Key      string  // key in a Sample
	Label    string  // description of the figure
	Unit     string  `json:",omitempty"`
	MaxRatio float64 `json:",omitempty"` // target relative to the floor; 0 means no target
	Max      float64 `json:",omitempty"` // absolute target in the figure's unit; 0 means no target
}

// Sample contains the figures of one run by their keys. It may contain additional keys.
type Sample map[string]float64

type Kind string

// The kinds of servers.
const (
	Floor   Kind = "floor"
	Gateway Kind = "gateway"
)

func (t Trial) kinds() []Kind {
	if t.floor {
		return []Kind{Gateway, Floor}
	}
	return []Kind{Gateway}
}

// Targets relative to the floor.
const (
	atFloor   = 1.5 // default target
	asProxies = 1.3 // target for streams distributed as in real proxies
)

const runLimit = 6 * time.Minute

// Sections of the documentation that rely on trials.
const (
	overview      = "performance.md#what-isthmus-costs"
	optimizations = "performance.md#optimizations-and-their-gains"
	staleClusters = "performance.md#copies-of-stale-clusters"
	sizing        = "operations.md#sizing"
)

type Mode string

// The modes.
const (
	Costs  Mode = "bench"  // trials at one size: make bench
	Growth Mode = "growth" // trials at several sizes, which measure growth: make growth
)

// Trials returns the trials of a mode in the order of execution.
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

// Scale contains the sizes of all trials.
type Scale struct {
	Web, App ServicesScale
	Streams  int
	Conns    int
	Flips    int // flips of one endpoint while streams are open
	Repeats  int // number of runs of a short trial
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

	Settle time.Duration // maximum time for a new server to release the memory used at startup
	Idle   time.Duration // maximum wait for idle processors before each run
}

// Full returns the scale for the targets.
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

// web returns the clusters for trials of Services with many Pods, and app those for trials of
// Services with few Pods.
func (s Scale) web(int) fleet.Config { return s.Web.fleet() }

func (s Scale) app(int) fleet.Config { return s.App.fleet() }
