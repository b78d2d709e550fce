package proxy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Message summarizes a received message.
type Message struct {
	Number int64     // number of the message, counted from 1 over all calls of the stream
	At     time.Time // time of receipt
	Kind   string    // add, remove, no_endpoints(true), no_endpoints(false), profile or none
	Addrs  []netip.AddrPort
	More   int    // number of addresses omitted from Addrs
	Detail string // JSON of a profile, truncated to a line
	Faults []Fault
}

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

// brief returns a copy of the message with only the first addresses, so that many messages can be
// stored.
func (m Message) brief() Message {
	const most = 8
	if len(m.Addrs) > most {
		m.More = len(m.Addrs) - most
		m.Addrs = slices.Clone(m.Addrs[:most])
	}
	return m
}

// ring stores the newest messages.
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

// oldest returns the stored messages in order of receipt.
func (r *ring) oldest() []Message {
	return slices.Concat(r.kept[r.next:], r.kept[:r.next])
}

// history records which addresses have been absent since the last Mark, and whether the state has
// been empty.
type history struct {
	always  map[netip.AddrPort]struct{}
	lost    map[netip.AddrPort]Message // the message that removed each address
	emptied *Message                   // the first message that emptied the state; an empty Message means at the Mark
	fewest  int                        // the smallest number of addresses
	thinned Message                    // the first message that led to fewest; empty means at the Mark

	size         int // number of addresses after the last message
	left, joined int // number of messages that decreased and increased size
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

// check returns an error if one of the addresses has been absent. Without addresses, it returns an
// error if the state has been empty.
func (h *history) check(addrs []netip.AddrPort) error {
	if len(addrs) == 0 && h.emptied != nil {
		if h.emptied.Number == 0 {
			return fmt.Errorf("the state was already empty at the mark")
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
		return fmt.Errorf("%s was already absent at the mark", addr)
	}
	return nil
}
