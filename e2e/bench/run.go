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

// Lab is where trials are made, and with what. All fields have to be set, but for Isthmus.
type Lab struct {
	Scale   Scale
	Dir     string   // for files
	Isthmus string   // the gateway's program; empty: harness.Isthmus
	Floor   []string // the command that runs ServeFloor; the recording's path is appended
	List    []string // the command that runs fleet.List and prints the number; the kubeconfig's path is appended

	Log func(format string, args ...any) // gets a line for each step
}

// run is one run of a trial on servers of one kind. One goroutine may use it.
type run struct {
	*Lab
	ctx        context.Context
	kind       Kind
	size       int // one of the trial's Sizes
	fleet      *fleet.Fleet
	kubeconfig string   // of the cluster that the gateway is local to
	recording  string   // the file from which the floor sends
	env        []string // KEY=VALUE, of the gateway, beyond the environment of this process
	samples    map[Kind]Sample
	ends       []func() error
}

// failed is what check panics with.
type failed struct{ error }

// check ends the run that calls it if there is an error, as a test is ended. Other goroutines than
// the run's must not call it.
func check(err error) {
	if err != nil {
		panic(failed{err})
	}
}

// must returns a value, or ends the run as check does.
func must[T any](value T, err error) T {
	check(err)
	return value
}

// atEnd has something ended with the run; what comes last is ended first.
func (r *run) atEnd(end func() error) { r.ends = append(r.ends, end) }

// set sets a figure of the run's kind of server.
func (r *run) set(key string, value float64) { r.samples[r.kind][key] = value }

// pause waits.
func (r *run) pause(d time.Duration) { check(harness.Pause(r.ctx, d)) }

// quiet is how long after the last message a server is assumed to have sent all.
const quiet = time.Second

// settle waits until nothing has come for a while.
func (r *run) settle(streams *load.Load) {
	for before := -1; before != streams.Received(); {
		before = streams.Received()
		r.pause(quiet)
	}
}

// once makes the run, and ends what it has started.
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

// Run makes trials. When one fails, the results are those of the others before it.
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

// sample makes a trial at one size, as often as it is to be made.
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

// awaitIdle waits until less than a tenth of the processors is in use, for Scale.Idle at most: what
// is left to do of the run before does not belong to this one. Then it logs how much is in use,
// since that makes the figures worse, of the floor too. The bench's own garbage is collected
// before.
func (l *Lab) awaitIdle(ctx context.Context, run string) error {
	const enough, look = 0.1, 250 * time.Millisecond
	runtime.GC()
	busy := 0.0
	for began := time.Now(); time.Since(began) < l.Scale.Idle; {
		var err error
		if busy, err = harness.MachineBusy(ctx, min(look, l.Scale.Idle)); ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			l.Log("%s: whether the processors are idle is not known: %v", run, err)
			return nil
		} else if busy < enough {
			return nil
		}
	}
	if busy > 0 {
		l.Log("%s: other work has %.0f %% of the processors: the figures are not reliable", run, 100*busy)
	}
	return nil
}

// Methods of the Destination service.
const getMethod, profileMethod = "Get", "GetProfile"

// spread returns Get streams, spread over some services.
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

// local and federated return the authorities of Services, by number.
func local(i int) string     { return fleet.Authority(fleet.Service(i)) }
func federated(i int) string { return fleet.Authority(fleet.Federated(fleet.Service(i))) }

// keepFirst has the messages of the first stream of each service and method kept.
func keepFirst(targets []load.Target) {
	kept := map[[2]string]bool{}
	for i, t := range targets {
		of := [2]string{t.Method, t.Authority}
		targets[i].Keep, kept[of] = !kept[of], true
	}
}

// record writes what streams have been sent whose messages are kept: the floor sends that.
func (r *run) record(streams *load.Load) {
	recording := floorRecording{Get: map[string]floorAnswer{}, GetProfile: map[string]floorAnswer{}}
	streams.Messages(func(to load.Target, messages [][]byte) {
		if to.Keep {
			recording.Of(to.Method)[to.Authority] = floorAnswer{First: messages[:1], Steps: messages[1:]}
		}
	})
	check(recording.Write(r.recording))
}

// awaitEndpoints waits until one stream has so many endpoints.
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

// start starts a server of the run's kind, with more flags if it is the gateway.
func (r *run) start(flags ...string) *server { return r.startReplica("", flags...) }

// startReplica is start for a replica of a name of its own, if it is the gateway.
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
