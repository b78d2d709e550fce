package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
)

// streams contains the subscriptions of proxies, each at any known replica.
type streams struct {
	list  []*stream
	known func() []string // returns the addresses of the replicas
	stop  func()
}

// stream is a subscription. The addrs function returns the expected addresses after the change with
// the given number. It is nil for profiles.
type stream struct {
	*proxy.Subscriber
	title string
	addrs func(number int) []string
}

// openStreams opens streams of every kind. Streams for imports are optional.
func openStreams(ctx context.Context, known func() []string, imports bool) *streams {
	west := func(n int) []string { return []string{westAddr(1), westAddr(2 + n)} }
	east := func(n int) []string { return []string{eastAddr(1), eastAddr(2 + n)} }
	both := func(n int) []string { return slices.Concat(west(n), east(n)) }
	vms := func(n int) []string { return []string{westAddr(100), westAddr(101 + n)} }

	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	all := &streams{known: known, stop: func() {
		cancel()
		running.Wait()
	}}
	open := func(kind proxy.Kind, title, authority string, addrs func(int) []string) {
		one := proxy.NewSubscriber(proxy.SubscriberConfig{
			Known: known, Kind: kind, Authority: authority, MayBeLate: true,
		})
		all.list = append(all.list, &stream{one, fmt.Sprint(kind, " of ", title), addrs})
		running.Go(func() { one.Run(ctx) })
	}
	open(proxy.Get, "a Service", kube.Authority(namespace, "web"), west)
	open(proxy.Get, "a mirror", kube.Authority(namespace, "web-east"), east)
	open(proxy.Get, "a federated Service", kube.Authority(namespace, "web-federated"), both)
	open(proxy.Get, "ExternalWorkloads", kube.Authority(namespace, "vm"), vms)
	services := []string{"web", "web-east", "web-federated", "vm"}
	if imports {
		open(proxy.Get, "an import", kube.Authority(namespace, "web-clusterset"), both)
		services = append(services, "web-clusterset")
	}
	for _, name := range services {
		open(proxy.GetProfile, "Service "+name, kube.Authority(namespace, name), nil)
	}
	open(proxy.GetProfile, "an endpoint", fmt.Sprintf("%s:%d", westAddr(1), kube.Port), nil)
	return all
}

// endpoints returns the expected endpoints of a Get stream after the change with the given number.
func (s *stream) endpoints(number int) (list []netip.AddrPort) {
	if s.addrs == nil {
		return nil
	}
	for _, ip := range s.addrs(number) {
		list = append(list, netip.AddrPortFrom(netip.MustParseAddr(ip), kube.Port))
	}
	slices.SortFunc(list, netip.AddrPort.Compare)
	return list
}

// have returns an error unless all streams are open at running replicas and reflect the change with
// the given number.
func (s *streams) have(number int) error {
	replicas := s.known()
	for _, one := range s.list {
		now := one.Stream().Snapshot()
		if now.Phase != proxy.Open || now.First == nil {
			return fmt.Errorf("%s: %v, %v", one.title, now.Phase, now.Err)
		}
		openings := one.Openings()
		if len(openings) == 0 || !slices.Contains(replicas, openings[len(openings)-1].Addr) {
			return fmt.Errorf("%s is not open at a replica that runs", one.title)
		}
		want := one.endpoints(number)
		if got := now.Get.Addrs(); !slices.Equal(got, want) {
			return fmt.Errorf("%s has %v, want %v", one.title, got, want)
		}
	}
	return nil
}

func (s *streams) mark() {
	for _, one := range s.list {
		one.Stream().Mark()
	}
}

// lost returns lines for faults and for lost endpoints. It only considers the endpoints expected
// after the change with the given number.
func (s *streams) lost(number int) (lines []string) {
	for _, one := range s.list {
		there := one.endpoints(number)
		for _, lost := range one.Stream().Lost() {
			if slices.Contains(there, lost) {
				lines = append(lines, fmt.Sprintf("%s lost %v", one.title, lost))
			}
		}
		if err := one.Stream().Flapped(); err != nil {
			lines = append(lines, fmt.Sprintf("%s: %v", one.title, err))
		}
		for _, fault := range one.Stream().Status().Faults {
			lines = append(lines, fmt.Sprintf("%s: %s", one.title, fault))
		}
	}
	return lines
}

// contents returns all data that proxies have received, by stream.
func (s *streams) contents() (fields, error) {
	all := make(fields)
	for _, one := range s.list {
		tree, err := one.Stream().Snapshot().JSON()
		if err != nil {
			return nil, err
		}
		all.add(one.title, tree)
	}
	return all, nil
}
