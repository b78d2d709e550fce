package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/bench/load"
	"isthmus/e2e/harness"
)

// Lab contains the environment of trials. All fields are required, except Isthmus.
type Lab struct {
	Scale   Scale
	Dir     string   // directory for temporary files
	Isthmus string   // path of the isthmus command; the default is harness.Isthmus
	Floor   []string // command that runs ServeFloor; the path of the recording is appended
	List    []string // command that runs fleet.List and prints the number; the path of the kubeconfig is appended

	Log func(format string, args ...any) // called for each step
}

// run is one run of a trial on one kind of server. It must only be used by one goroutine.
type run struct {
	*Lab
	ctx        context.Context
	kind       Kind
	size       int // one of Trial.Sizes
	fleet      *fleet.Fleet
	kubeconfig string   // kubeconfig of the replica's local cluster
	recording  string   // file with the floor's messages
	env        []string // KEY=VALUE, in addition to the environment of this process, for the replica
	samples    map[Kind]Sample
	ends       []func() error
}

type failed struct{ error }

// check ends the run if err is not nil, similar to testing.T.Fatal. Only the goroutine of the run
// may call it.
func check(err error) {
	if err != nil {
		panic(failed{err})
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

// atEnd registers a cleanup function. The functions run in reverse order.
func (r *run) atEnd(end func() error) { r.ends = append(r.ends, end) }

func (r *run) set(key string, value float64) { r.samples[r.kind][key] = value }

func (r *run) pause(d time.Duration) { check(harness.Pause(r.ctx, d)) }

const quiet = time.Second

func (r *run) settle(streams *load.Load) {
	for before := -1; before != streams.Received(); {
		before = streams.Received()
		r.pause(quiet)
	}
}

// once runs the trial once and then calls the cleanup functions.
func (r *run) once(ctx context.Context, do func(*run)) (err error) {
	var cancel context.CancelFunc
	r.ctx, cancel = context.WithTimeout(ctx, runLimit)
	defer cancel()
	defer func() {
		for _, end := range slices.Backward(r.ends) {
			err = errors.Join(err, end())
		}
	}()
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failed:
			err = p.error
		default:
			panic(p)
		}
	}()
	do(r)
	return nil
}

// Run runs trials. If a trial fails, Run also returns the results of the previous trials.
func (l *Lab) Run(ctx context.Context, trials []Trial) (results []Result, err error) {
	for _, t := range trials {
		sizes := t.Sizes
		if sizes == nil {
			sizes = []int{0}
		}
		for _, size := range sizes {
			began := time.Now()
			r := Result{Trial: t.Name, Figures: t.Figures, Size: size, Of: t.Of}
			if r.Samples, err = l.sample(ctx, t, size); err != nil {
				return results, fmt.Errorf("%s: %w", r.name(), err)
			}
			l.Log("%s: %.0f s", r.name(), time.Since(began).Seconds())
			results = append(results, r)
		}
	}
	return results, nil
}

func (l *Lab) sample(ctx context.Context, t Trial, size int) (samples map[Kind][]Sample, err error) {
	r := run{
		Lab:        l,
		size:       size,
		kubeconfig: filepath.Join(l.Dir, "fleet.kubeconfig"),
		recording:  filepath.Join(l.Dir, "fleet.json"),
	}
	if r.fleet, err = fleet.Start(t.fleet(size)); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.fleet.Close()) }()
	if err := r.fleet.WriteKubeconfig(r.kubeconfig); err != nil {
		return nil, err
	}
	samples = map[Kind][]Sample{}
	for range t.repeats {
		for _, kind := range t.kinds() {
			what := fmt.Sprintf("%s of the %s", t.Name, kind)
			if err := l.awaitIdle(ctx, what); err != nil {
				return nil, err
			}
			one := r
			one.kind, one.samples = kind, map[Kind]Sample{kind: {}}
			if err := one.once(ctx, t.do); err != nil {
				return nil, fmt.Errorf("the %s: %w", kind, err)
			}
			for of, s := range one.samples {
				samples[of] = append(samples[of], s)
			}
		}
	}
	return samples, nil
}

// awaitIdle waits until less than a tenth of the CPU is in use, so that a run does not include work
// left over from the previous run. It collects the bench's own garbage first, and waits at most for
// Scale.Idle. If the CPU is still in use after that, awaitIdle logs the share, because the figures
// are then unreliable.
func (l *Lab) awaitIdle(ctx context.Context, run string) error {
	const enough, look = 0.1, 250 * time.Millisecond
	runtime.GC()
	busy := 0.0
	for began := time.Now(); time.Since(began) < l.Scale.Idle; {
		var err error
		if busy, err = harness.MachineBusy(ctx, min(look, l.Scale.Idle)); ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			l.Log("%s: cannot determine whether the processors are idle: %v", run, err)
			return nil
		} else if busy < enough {
			return nil
		}
	}
	if busy > 0 {
		l.Log("%s: other work uses %.0f %% of the processors: the figures are not reliable", run, 100*busy)
	}
	return nil
}

// Methods of the Destination service.
const getMethod, profileMethod = "Get", "GetProfile"

// spread returns Get streams spread evenly over the services.
func spread(streams, conns, services int, authority func(service int) string) load.Config {
	cfg := load.Config{Conns: conns}
	for i := range streams {
		cfg.Targets = append(
			cfg.Targets,
			load.Target{Method: getMethod, Authority: authority(i % services), Token: fleet.Token(i)},
		)
	}
	return cfg
}

// local and federated return the authorities of a Service and of its federated Service by number.
func local(i int) string     { return fleet.Authority(fleet.Service(i)) }
func federated(i int) string { return fleet.Authority(fleet.Federated(fleet.Service(i))) }

// keepFirst makes the first stream of each service and method store its messages.
func keepFirst(targets []load.Target) {
	kept := map[[2]string]bool{}
	for i, t := range targets {
		of := [2]string{t.Method, t.Authority}
		targets[i].Keep, kept[of] = !kept[of], true
	}
}

// record writes the stored messages to the recording for the floor.
func (r *run) record(streams *load.Load) {
	recording := floorRecording{Get: map[string]floorAnswer{}, GetProfile: map[string]floorAnswer{}}
	streams.Messages(func(to load.Target, messages [][]byte) {
		if to.Keep {
			recording.Of(to.Method)[to.Authority] = floorAnswer{First: messages[:1], Steps: messages[1:]}
		}
	})
	check(recording.Write(r.recording))
}

func (r *run) awaitEndpoints(stream *load.Load, endpoints int) {
	for {
		var kept [][]byte
		stream.Messages(func(_ load.Target, all [][]byte) { kept = all })
		if must(folded(kept)).Len() == endpoints {
			return
		}
		check(stream.Await(r.ctx, len(kept)+1))
	}
}

// start starts a server of the run's kind. The flags only apply to a replica.
func (r *run) start(flags ...string) *server { return r.startReplica("", flags...) }

// startReplica is like start, but sets the name of a replica.
func (r *run) startReplica(name string, flags ...string) *server {
	s := &server{run: r, started: time.Now(), steps: map[string]int{}}
	switch {
	case r.kind == Floor:
		s.floor = must(startFloor(r.ctx, append(slices.Clip(r.Floor), r.recording)...))
		s.addr, s.pid = s.floor.Addr(), s.floor.Pid()
		r.atEnd(s.floor.Stop)
	default:
		g := must(harness.StartReplica(r.ctx, harness.ReplicaConfig{
			Binary:     r.Isthmus,
			Kubeconfig: r.kubeconfig,
			Hostname:   name,
			Env:        r.env,
			Args:       append(gatewayArgs(), flags...),
		}))
		s.addr, s.pid, s.admin = g.Addr(), g.Pid(), g.MetricsAddr()
		r.atEnd(func() error { return errors.Join(g.Check(r.ctx), g.Stop()) })
	}
	s.ready = time.Since(s.started)
	return s
}
