package proxy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Message is one received message in short.
type Message struct {
	Number int64     // counted from 1 over the stream's whole life
	At     time.Time // when it was received
	Kind   string    // add, remove, no_endpoints(true), no_endpoints(false), profile or none
	Addrs  []netip.AddrPort
	More   int    // addresses left out of Addrs
	Detail string // of a profile: its JSON, cut to a line
	Faults []Fault
}

// String describes the message in a line.
func (m Message) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "#%d %s %s", m.Number, m.At.Format("15:04:05.000"), m.Kind)
	for _, a := range m.Addrs {
		b.WriteString(" " + a.String())
	}
	if m.More > 0 {
		fmt.Fprintf(&b, " and %d more", m.More)
	}
	if m.Detail != "" {
		b.WriteString(" " + m.Detail)
	}
	for _, f := range m.Faults {
		b.WriteString(" FAULT: " + string(f))
	}
	return b.String()
}

// brief returns the message with few enough addresses to be kept in numbers.
func (m Message) brief() Message {
	const most = 8
	if len(m.Addrs) > most {
		m.More = len(m.Addrs) - most
		m.Addrs = slices.Clone(m.Addrs[:most])
	}
	return m
}

// ring keeps the newest messages.
type ring struct {
	kept []Message
	next int
	most int
}

func (r *ring) add(m Message) {
	if len(r.kept) < r.most {
		r.kept = append(r.kept, m)
		return
	}
	r.kept[r.next] = m
	r.next = (r.next + 1) % r.most
}

// oldest returns the kept messages, the oldest first.
func (r *ring) oldest() []Message {
	return slices.Concat(r.kept[r.next:], r.kept[:r.next])
}

// history knows, from a mark on, which addresses have been there all the time and whether there always were some.
type history struct {
	always  map[netip.AddrPort]struct{}
	lost    map[netip.AddrPort]Message // by which message
	emptied *Message                   // the first message that left nothing, or an empty Message for the mark itself
	fewest  int                        // addresses that there were
	thinned Message                    // the first message that left so few; empty: at the mark

	size         int // number of addresses after the last message
	left, joined int // messages after which there were fewer, and more
}

func newHistory(s *GetState, empty bool) *history {
	h := &history{
		always: map[netip.AddrPort]struct{}{},
		lost:   map[netip.AddrPort]Message{},
		size:   s.Len(),
		fewest: s.Len(),
	}
	for addr := range s.endpoints {
		h.always[addr] = struct{}{}
	}
	if empty {
		h.emptied = &Message{}
	}
	return h
}

func (h *history) note(s *GetState, empty bool, m Message) {
	for addr := range h.always {
		if !s.Has(addr) {
			delete(h.always, addr)
			h.lost[addr] = m
		}
	}
	if empty && h.emptied == nil {
		h.emptied = &m
	}
	switch now := s.Len(); {
	case now < h.size:
		h.left++
	case now > h.size:
		h.joined++
	}
	h.size = s.Len()
	if n := s.Len(); n < h.fewest {
		h.fewest, h.thinned = n, m
	}
}

// check returns why the history is not one without flaps.
func (h *history) check(addrs []netip.AddrPort) error {
	if len(addrs) == 0 && h.emptied != nil {
		if h.emptied.Number == 0 {
			return fmt.Errorf("the state was empty at the mark already")
		}
		return fmt.Errorf("the state was empty after message %s", h.emptied)
	}
	for _, addr := range addrs {
		if _, ok := h.always[addr]; ok {
			continue
		}
		if m, ok := h.lost[addr]; ok {
			return fmt.Errorf("%s was absent after message %s", addr, m)
		}
		return fmt.Errorf("%s was absent at the mark already", addr)
	}
	return nil
}
