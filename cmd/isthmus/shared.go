package main

import (
	"sync/atomic"
	"time"
	"weak"
)

// shareMost is how old a shared value gets.
const shareMost = 30 * time.Second

// shared is a value that takes time to make and that many clients ask for. Those who ask while it is made, or for some
// time after, get the same, so that all of them together cost a part of a processor, however many they are.
type shared[T any] struct {
	make  func() T      // not called again before it has returned
	least time.Duration // for so long a value is good
	times int           // as long as making it has taken, if that is more: for so long it is good then, up to shareMost
	small func(T) bool  // whether it may stay in memory between its users; nil: any may

	making chan struct{} // has a value while somebody has newest; making may take long
	number uint64        // of newest
	newest weak.Pointer[made[T]]
	kept   atomic.Pointer[made[T]] // newest while it is good, if it is small
}

// made is a value, which goes once nobody uses it or it is no longer good.
type made[T any] struct {
	value  T
	number uint64 // grows, also when the gateway starts anew
	until  time.Time
}

func newShared[T any](least time.Duration, times int, small func(T) bool, make func() T) *shared[T] {
	return &shared[T]{make: make, least: least, times: times, small: small, making: newSlot()}
}

func newSlot() chan struct{} { return make(chan struct{}, 1) }

// get returns the value as it was a moment ago. Callers share it, for as long as one of them has the pointer.
func (s *shared[T]) get() *made[T] {
	s.making <- struct{}{}
	defer func() { <-s.making }()
	last := s.newest.Value()
	if last != nil && time.Now().Before(last.until) {
		return last
	}
	last = nil // it may go while its successor is made
	began := time.Now()
	s.number = max(s.number+1, uint64(began.UnixNano()))
	m := &made[T]{value: s.make(), number: s.number}
	now := time.Now()
	good := min(shareMost, max(s.least, time.Duration(s.times)*now.Sub(began)))
	m.until = now.Add(good)
	s.newest = weak.Make(m)
	if s.small == nil || s.small(m.value) {
		s.kept.Store(m)
		time.AfterFunc(good, func() { s.kept.CompareAndSwap(m, nil) })
	}
	return m
}
