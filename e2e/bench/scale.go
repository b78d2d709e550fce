package bench

import "time"

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
		Cold:    ColdScale{Clusters: 3, Services: 1000, Endpoints: 5, Repeats: 3}, ColdLarge: ColdScale{Clusters: 20, Services: 1000, Endpoints: 10, Repeats: 2},
		Hot:   HotScale{Proxies: Crowd{1000, 20}, Slices: 50, Endpoints: 100, Over: time.Minute},
		Spill: SpillScale{Services: 1000, Endpoints: 50, Pods: 5000, Over: 30 * time.Second, After: 10 * time.Second, Return: 5 * time.Second},
		Many: ManyScale{Linked: 250, Services: 100, Endpoints: 10, Spread: 25, Streams: 10_000, Conns: 2000,
			Rates: Rates{Node: 0.1, Endpoint: 1, Label: 0.2}, Over: time.Minute},
		Viewers: ViewersScale{Viewers: 10, ManyScale: ManyScale{Linked: 250, Services: 40, Endpoints: 2, Spread: 2, Streams: 5000, Conns: 500,
			Rates: Rates{Endpoint: 0.4}, Over: 30 * time.Second}},
		Exports: ExportsScale{Exports: 500, Changes: 100, ManyScale: ManyScale{Linked: 10, Services: 1000, Endpoints: 5, Spread: 10, Streams: 10_000, Conns: 1000,
			Rates: Rates{Endpoint: 10}, Over: time.Minute}},
		Growth: GrowthScale{
			Endpoints: []int{100, 1000, 10_000}, Clusters: []int{1, 10, 50}, Services: []int{10, 1000, 10_000},
			Changes: 400, Streams: 10_000, Conns: 100,
			Crowds: CrowdScale{
				Services: 1000, Endpoints: 10, Streams: []int{1200, 12_000, 120_000}, Each: 12, Conns: []int{100, 1000, 10_000}, Of: 12_000,
			},
			Linked: LinkedScale{Clusters: []int{20, 200, 2000}, Services: 10, Endpoints: 10, Spread: 20, Rest: 15 * time.Second},
		},
	}
}
