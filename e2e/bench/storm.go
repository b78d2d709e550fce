package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/bench/floor"
	"isthmus/e2e/bench/load"
	"isthmus/e2e/bench/proc"
	"isthmus/e2e/gateway"
	"isthmus/e2e/poll"
)

// StormScale is what a replica has to take over.
type StormScale struct {
	Proxies   Crowd
	Services  int           // federated ones, each of three clusters
	Endpoints int           // of each in a cluster
	Servers   int           // in each cluster
	Profiles  int           // ServiceProfiles
	Over      time.Duration // in which proxies come to the first replica
	Later     time.Duration // after the storm, when the other's memory is to be as that of the first was
}

// storm lets all proxies come to one replica, one after the other, and kills it, so that all go to the other one at once.
// The floor is two bare servers that send what the gateway's streams began with.
func storm(ctx context.Context, l *Lab) (samples map[Kind]Sample, err error) {
	s := l.cfg.Scale.Storm
	f, kubeconfig, err := startFleet(l.cfg, fleet.Config{
		Linked: 2, Services: s.Services, Slices: 1, Endpoints: s.Endpoints, Servers: s.Servers, Profiles: s.Profiles, Joined: true,
	})
	if err != nil {
		return nil, err
	}
	recording := filepath.Join(l.cfg.Dir, "storm.json")
	of, err := l.stormGateways(ctx, kubeconfig, recording)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("the gateway: %w", err)
	}
	bare, err := l.stormFloors(ctx, recording)
	if err != nil {
		return nil, fmt.Errorf("the floor: %w", err)
	}
	return map[Kind]Sample{Gateway: of, Floor: bare}, nil
}

// replica is a running server that can be killed.
type replica interface {
	Addr() string
	Pid() int
	Kill() error
}

// stormGateways makes the trial with two gateways, and records what the streams begin with.
func (l *Lab) stormGateways(ctx context.Context, kubeconfig, recording string) (_ Sample, err error) {
	var two [2]replica
	for i := range two {
		g, err := startGateway(ctx, l.cfg.Isthmus, kubeconfig)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, g.Stop()) }()
		two[i] = killable{g}
	}
	return l.stormed(ctx, two, recording)
}

// killable is a gateway.
type killable struct{ *gateway.Gateway }

func (k killable) Kill() error {
	exited := k.Exited()
	if err := k.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-exited
	return nil
}

// stormFloors makes it with two floors.
func (l *Lab) stormFloors(ctx context.Context, recording string) (_ Sample, err error) {
	var two [2]replica
	for i := range two {
		p, err := floor.Start(ctx, append(l.cfg.Floor[:len(l.cfg.Floor):len(l.cfg.Floor)], recording)...)
		if err != nil {
			return nil, err
		}
		end := p.Stop
		if i == 0 { // it is killed, which Stop would return as its failure
			end = p.Kill
		}
		defer func() { err = errors.Join(err, end()) }()
		two[i] = p
	}
	return l.stormed(ctx, two, "")
}

// stormed kills the first of two replicas, and returns what that was like for the proxies and the other. If there is a
// path for it, it records what the streams begin with there.
func (l *Lab) stormed(ctx context.Context, two [2]replica, recording string) (Sample, error) {
	s := l.cfg.Scale.Storm
	proxies := load.StartProxies(load.ProxiesConfig{Addrs: []string{two[0].Addr(), two[1].Addr()}, Targets: s.targets(), Over: s.Over})
	defer proxies.Close()
	if err := proxies.Await(ctx, trialLimit, s.Proxies.Conns); err != nil {
		return nil, err
	}
	if recording != "" {
		if err := record(proxies).Write(recording); err != nil {
			return nil, err
		}
	}
	calm, err := proc.Settled(ctx, two[0].Pid(), l.cfg.Scale.Settle)
	if err != nil {
		return nil, err
	}
	if err := proc.ResetPeak(two[1].Pid()); err != nil {
		return nil, err
	}
	killed := time.Now()
	cpu, err := cpuOf(ctx, two[1].Pid(), func() error {
		if err := two[0].Kill(); err != nil {
			return err
		}
		return proxies.Await(ctx, trialLimit, 2*s.Proxies.Conns)
	})
	if err != nil {
		return nil, err
	}
	sample := storms(proxies, killed)
	sample["cpu"] = cpu.Seconds()
	if recording == "" {
		return sample, nil
	}
	if err := poll.Pause(ctx, s.Later); err != nil {
		return nil, err
	}
	later, err := proc.ReadMemory(two[1].Pid())
	if err != nil {
		return nil, err
	}
	peak, err := proc.Peak(two[1].Pid())
	sample["calm"], sample["peak"], sample["later"] = megabytes(calm.RSS), megabytes(peak), megabytes(later.RSS)
	sample["rest"] = 100 * (float64(later.RSS)/float64(calm.RSS) - 1)
	return sample, err
}

// targets returns the streams of all proxies. What a stream of each Service and method begins with is kept.
func (s StormScale) targets() (list [][]load.Target) {
	kept := map[load.Target]bool{}
	for conn := range s.Proxies.Conns {
		own := s.Proxies.proxy(conn, s.Services, fleetName)
		for i, t := range own {
			t.Token = ""
			own[i].Keep = !kept[t]
			kept[t] = true
		}
		list = append(list, own)
	}
	return list
}

// record returns what streams have begun with.
func record(proxies *load.Proxies) floor.Recording {
	r := floor.Recording{Get: map[string]floor.Answer{}, GetProfile: map[string]floor.Answer{}}
	proxies.Each(func(streams *load.Load) {
		streams.Messages(func(to load.Target, messages [][]byte) {
			of := r.Get
			if to.Method == profileMethod {
				of = r.GetProfile
			}
			if to.Keep {
				of[to.Authority] = floor.Answer{First: messages[:1]}
			}
		})
	})
	return r
}

// storms returns how long proxies waited that connected since a moment.
func storms(proxies *load.Proxies, since time.Time) Sample {
	var first, after []float64
	for _, o := range proxies.Openings(since) {
		for _, at := range o.First {
			first, after = append(first, milliseconds(at.Sub(o.Began))), append(after, milliseconds(at.Sub(since)))
		}
	}
	bytes, streams := 0, 0
	proxies.Each(func(l *load.Load) { bytes, streams = bytes+l.Bytes(), streams+l.Streams() })
	sorted(first)
	return Sample{
		"first p50": percentile(first, 50), "first p99": percentile(first, 99), "first": percentile(first, 100), "after": percentile(sorted(after), 100),
		"refused": 100 * float64(len(proxies.Failures())) / float64(len(first)), "bytes": float64(bytes) / float64(streams),
	}
}
