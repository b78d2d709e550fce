package main

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"isthmus/e2e/proxy"
)

// change is what the proxy saw of one step.
type change struct {
	from, to endpoints
	began    time.Time       // before anything was changed
	changed  time.Time       // when the last change was made; zero: there was none to be seen
	messages []proxy.Message // since then began, in order
}

// since returns the messages after the one of that number.
func since(stream *proxy.Stream, number int64) ([]proxy.Message, error) {
	recent := stream.Recent()
	if len(recent) > 0 && recent[0].Number > number+1 {
		return nil, fmt.Errorf("there were too many messages to look at each: %d", recent[len(recent)-1].Number-number)
	}
	return slices.DeleteFunc(recent, func(m proxy.Message) bool { return m.Number <= number }), nil
}

// by returns the messages that had any of these addresses. Each must have been in exactly one.
func (c change) by(addrs []netip.AddrPort) (list []proxy.Message, err error) {
	count := map[netip.AddrPort]int{}
	for _, m := range c.messages {
		if m.More > 0 || m.Kind != "add" && m.Kind != "remove" {
			return nil, fmt.Errorf("the message %s can't be looked at", m)
		}
		has := false
		for _, addr := range m.Addrs {
			count[addr]++
			has = has || slices.Contains(addrs, addr)
		}
		if has {
			list = append(list, m)
		}
	}
	for _, addr := range addrs {
		if count[addr] != 1 {
			return nil, fmt.Errorf("%s was in %d messages of the step, not in one", addr, count[addr])
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no endpoints came or left")
	}
	return list, nil
}

// together returns the message that had all of these addresses; there must be one.
func (c change) together(addrs []netip.AddrPort) (proxy.Message, error) {
	list, err := c.by(addrs)
	if err != nil {
		return proxy.Message{}, err
	}
	if len(list) > 1 {
		return proxy.Message{}, fmt.Errorf("the endpoints did not come or leave in one message, but in %d: %v", len(list), list)
	}
	return list[0], nil
}

// countBefore returns how many of these addresses the proxy had when a message came, if it had all at the beginning.
func (c change) countBefore(m proxy.Message, addrs []netip.AddrPort) int {
	left := slices.Clone(addrs)
	for _, earlier := range c.messages {
		if earlier.Number < m.Number && earlier.Kind == "remove" {
			left = slices.DeleteFunc(left, func(a netip.AddrPort) bool { return slices.Contains(earlier.Addrs, a) })
		}
	}
	return len(left)
}
