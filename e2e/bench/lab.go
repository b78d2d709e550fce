package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"isthmus/e2e/bench/load"
	"isthmus/e2e/bench/proc"
	"isthmus/e2e/bench/world"
	"isthmus/e2e/poll"
)

// Scale is how much is measured with.
type Scale struct {
	World   world.Scale
	Streams int
	Conns   int
	Flips   int // of one endpoint under open streams
	Rate    int // changes a second, of all Services with few Pods in turn
	Rounds  int // how often each of those is changed
	Repeats int // of short trials
	Proxies ProxiesScale
	Spill   SpillScale
	Storm   StormScale
	Hot     HotScale
	Many    ManyScale
	Viewers ViewersScale
	Blast   BlastScale

	Cold, ColdLarge ColdScale

	Settle time.Duration // how long a fresh server has, at most, to give back memory that it needed to start
	Idle   time.Duration // how long each run of a trial waits, at most, for idle processors
}

// Full is the scale that the targets are for.
func Full() Scale {
	return Scale{
		World:   world.Scale{Web: 100, WebPods: 50, App: 1000, AppPods: 5},
		Streams: 10_000, Conns: 100, Flips: 20, Rate: 500, Rounds: 15, Repeats: 3, Settle: 10 * time.Second, Idle: 20 * time.Second,
		Proxies: ProxiesScale{Many: Crowd{3000, 4}, Busy: Crowd{1000, 20}, Changed: 250, Rate: 300},
		Storm:   StormScale{Proxies: Crowd{3000, 4}, Services: 1000, Endpoints: 5, Servers: 700, Profiles: 1000, Over: 6 * time.Second, Later: time.Minute},
		Cold:    ColdScale{Clusters: 3, Services: 1000, Endpoints: 5, Repeats: 3}, ColdLarge: ColdScale{Clusters: 20, Services: 1000, Endpoints: 10, Repeats: 2},
		Hot:   HotScale{Proxies: Crowd{1000, 20}, Slices: 50, Endpoints: 100, Over: time.Minute},
		Spill: SpillScale{Services: 1000, Endpoints: 50, Pods: 5000, Over: 30 * time.Second, After: 10 * time.Second, Return: 5 * time.Second},
		Many: ManyScale{Linked: 250, Services: 100, Endpoints: 10, Spread: 25, Streams: 10_000, Conns: 2000,
			Rates: Rates{Node: 0.1, Endpoint: 1, Label: 0.2}, Over: time.Minute},
		Viewers: ViewersScale{Viewers: 10, ManyScale: ManyScale{Linked: 250, Services: 40, Endpoints: 2, Spread: 2, Streams: 5000, Conns: 500,
			Rates: Rates{Endpoint: 0.4}, Over: 30 * time.Second}},
		Blast: BlastScale{Linked: 20, Services: 500, Rate: 250, Events: 5000, Fits: 5000, Budget: "64Mi", Quiet: 5, Flood: 8},
	}
}

// Config is what to measure with.
type Config struct {
	Scale        Scale
	Dir          string   // for files, the clusters' state among them
	Kubeconfigs  []string // of filled clusters, as package world fills them; nil: clusters are started and filled
	Isthmus      string   // the gateway's program; empty: program.Isthmus
	Controlplane string   // the clusters' program; empty: program.Controlplane
	Floor        []string // the command that runs floor.Serve; the recording's path is appended
	List         []string // the command that runs fleet.List and prints the number; the kubeconfig's path is appended

	Addr string // of another server to measure, which follows the clusters; empty: the gateway
	Pid  int    // that server's process

	Log func(format string, args ...any) // gets a line for each step
}

func (c *Config) validate() error {
	switch {
	case c.Dir == "" || len(c.Floor) == 0 || len(c.List) == 0:
		return errors.New("bench: Config has no Dir, no Floor or no List")
	case (c.Addr == "") != (c.Pid == 0):
		return errors.New("bench: another server needs both Addr and Pid")
	case c.Addr != "" && c.Kubeconfigs == nil:
		return errors.New("bench: another server needs Kubeconfigs of running clusters")
	case c.Scale.Streams < c.Scale.World.App:
		return fmt.Errorf("bench: %d streams are too few for %d Services", c.Scale.Streams, c.Scale.World.App)
	}
	if c.Log == nil {
		c.Log = func(string, ...any) {}
	}
	return nil
}

// Lab is where trials are made: filled clusters and a recording of what the measured server answers.
type Lab struct {
	cfg       Config
	world     *world.World
	recording string                                                         // the file
	first     map[string]int                                                 // how many messages a stream of a family begins with
	absent    map[string]error                                               // families that the measured server does not serve
	busy      func(ctx context.Context, over time.Duration) (float64, error) // which part of the processors is in use
	close     func() error
}

// Open sets up a lab, with clusters if a trial needs them. Close ends what it has started.
func Open(ctx context.Context, cfg Config, trials []Trial) (_ *Lab, err error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	l := &Lab{
		cfg: cfg, recording: filepath.Join(cfg.Dir, "recording.json"),
		first: map[string]int{}, absent: map[string]error{}, busy: proc.Busy, close: func() error { return nil },
	}
	if !slices.ContainsFunc(trials, func(t Trial) bool { return t.own == nil }) {
		return l, nil
	}
	if err := l.fill(ctx, trials); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// fill starts and fills clusters, unless there are some, and records what the measured server answers to the families of
// trials.
func (l *Lab) fill(ctx context.Context, trials []Trial) (err error) {
	kubeconfigs := l.cfg.Kubeconfigs
	if kubeconfigs == nil {
		if kubeconfigs, l.close, err = StartClusters(ctx, l.cfg); err != nil {
			l.close = func() error { return nil }
			return err
		}
	}
	if l.world, err = world.New(kubeconfigs); err != nil {
		return err
	}
	if err := l.world.Load(ctx); err != nil {
		return err
	}
	if err := l.record(ctx, trials); err != nil {
		return fmt.Errorf("record the server's answers: %w", err)
	}
	return nil
}

// Close ends the clusters, if the lab has started them.
func (l *Lab) Close() error { return l.close() }

// Methods of the Destination service.
const getMethod, profileMethod = "Get", "GetProfile"

// family is a kind of streams: the services that they are spread over, whose method is the same.
type family struct {
	name   string
	method string
	count  func(world.Scale) int
	of     func(i int) service
}

func webs(s world.Scale) int { return s.Web }
func apps(s world.Scale) int { return s.App }

var (
	webLocal = family{"web", getMethod, webs, func(i int) service {
		return service{method: getMethod, authority: world.Authority(world.Web(i)), name: world.Web(i)}
	}}
	webFederated = family{"web federated", getMethod, webs, func(i int) service {
		return service{method: getMethod, authority: world.Authority(world.Federated(world.Web(i))), cluster: 1, name: world.Web(i)}
	}}
	appLocal = family{"app", getMethod, apps, func(i int) service {
		return service{method: getMethod, authority: world.Authority(world.App(i)), name: world.App(i)}
	}}
	// appFederated has its changes in all clusters in turn. Those in the local one change the local Service too.
	appFederated = family{"app federated", getMethod, apps, func(i int) service {
		s := service{method: getMethod, authority: world.Authority(world.Federated(world.App(i))), cluster: i % len(world.Names), name: world.App(i)}
		if s.cluster == 0 {
			s.also = appLocal.of(i).authority
		}
		return s
	}}
	profilesLocal = family{"profiles", profileMethod, apps, func(i int) service {
		return service{method: profileMethod, authority: world.Authority(world.App(i)), name: world.App(i)}
	}}
	profilesFederated = family{"profiles federated", profileMethod, apps, func(i int) service {
		name := world.Federated(world.App(i))
		return service{method: profileMethod, authority: world.Authority(name), name: name}
	}}
)

// open opens all streams, spread over the first few services of a family.
func (l *Lab) open(ctx context.Context, at subject, f family, services int) (*load.Load, error) {
	cfg := load.Config{Addr: at.Addr(), Method: f.method, Conns: l.cfg.Scale.Conns, First: l.first[f.name]}
	for i := range l.cfg.Scale.Streams {
		cfg.Targets = append(cfg.Targets, load.Target{
			Authority: f.of(i % services).authority, Token: world.Token(i),
		})
	}
	return load.Open(ctx, cfg)
}

// meter opens all streams, spread over the first few services of a family, and measures once that is over.
func (l *Lab) meter(ctx context.Context, at subject, f family, services int) (*meter, error) {
	streams, err := l.open(ctx, at, f, services)
	if err != nil {
		return nil, err
	}
	if err := poll.Pause(ctx, aftermath); err != nil {
		return nil, errors.Join(err, streams.Close())
	}
	m, err := startMeter(at.Pid(), streams)
	if err != nil {
		return nil, errors.Join(err, streams.Close())
	}
	return m, nil
}

// turns counts changes of services.
type turns struct {
	mu    sync.Mutex
	count map[string]int
}

// next returns 0 and 1 in turn.
func (t *turns) next(service string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count == nil {
		t.count = map[string]int{}
	}
	t.count[service]++
	return (t.count[service] + 1) % 2
}
