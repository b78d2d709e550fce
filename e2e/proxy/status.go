package proxy

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Phase is where a Stream is in its life.
type Phase int

const (
	Idle  Phase = iota // not opened yet, or closed by this side
	Open               // the call is under way
	Ended              // the server, or the connection, ended the call
)

// Status is what has come of a Stream so far.
type Status struct {
	Phase    Phase
	Err      error     // of an ended stream: its gRPC status, nil for OK
	Opened   time.Time // when the call was last opened
	EndedAt  time.Time
	First    *Message // first message since then
	Messages int64    // received in the stream's whole life
	Faults   []Fault  // the first ones
}

// Snapshot is the status and the state that belong together.
type Snapshot struct {
	Status
	Kind    Kind
	Get     *GetState     // of a Get stream
	Profile *ProfileState // of a GetProfile stream
}

// JSON returns the folded state as a tree of JSON values.
func (s Snapshot) JSON() (any, error) {
	if s.Kind == GetProfile {
		return s.Profile.JSON()
	}
	return s.Get.JSON()
}

// Mark begins a new history with the present state.
func (s *Stream) Mark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	empty := s.get.Len() == 0
	if s.cfg.Kind == GetProfile {
		empty = s.profile.last == nil || line(s.profile.last) == "{}"
	}
	s.history = newHistory(&s.get, empty)
}

// Flapped returns an error when one of the addresses was absent at the Mark or after any message since, or, where none
// is named, when the state was empty then.
func (s *Stream) Flapped(addrs ...netip.AddrPort) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.history == nil {
		return errors.New("the stream has no mark")
	}
	return s.history.check(addrs)
}

// Parts returns in how many messages since the Mark addresses have left, and in how many some have joined.
func (s *Stream) Parts() (left, joined int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.history == nil {
		return 0, 0, errors.New("the stream has no mark")
	}
	return s.history.left, s.history.joined, nil
}

// Fewest returns how few endpoints there were, at the Mark or after any message since, and after which message first; an empty
// Message: at the Mark.
func (s *Stream) Fewest() (int, Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.history == nil {
		return 0, Message{}
	}
	return s.history.fewest, s.history.thinned
}

// Lost returns the addresses that were there at the Mark and were absent after some message since, in order. It is empty
// without a Mark.
func (s *Stream) Lost() []netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.history == nil {
		return nil
	}
	return slices.SortedFunc(maps.Keys(s.history.lost), netip.AddrPort.Compare)
}

// Snapshot returns the present status and state.
func (s *Stream) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	profile := s.profile
	snap := Snapshot{Status: s.status, Kind: s.cfg.Kind, Get: s.get.Clone(), Profile: &profile}
	snap.Faults = slices.Clone(snap.Faults)
	return snap
}

// Status returns the present status alone, which is cheaper than a Snapshot.
func (s *Stream) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.status
	status.Faults = slices.Clone(status.Faults)
	return status
}

// Recent returns the newest messages, the oldest of them first.
func (s *Stream) Recent() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.recent.oldest()
}

// Changed returns a channel that is closed after the next message or change of phase. Take it before a Snapshot to
// miss nothing.
func (s *Stream) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}
