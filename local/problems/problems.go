// Package problems stores the problems of each Service: which parts of the Service cannot be used,
// and why. A [Store] logs the problems of a Service once, when they appear or change.
package problems

import (
	"cmp"
	"slices"
	"sync"

	"go.uber.org/zap"

	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// Store holds the problems of Services. Use [New] to create one. All methods of a Store are safe
// for concurrent use.
type Store struct {
	log     *zap.Logger
	message string

	mu  sync.Mutex
	all map[federation.ServiceID][]string
}

// New returns an empty Store. The Store logs the problems of a Service under the given message.
func New(log *zap.Logger, message string) *Store {
	return &Store{log: log, message: message, all: make(map[federation.ServiceID][]string)}
}

// Set replaces the problems of a Service. An empty list removes them.
func (s *Store) Set(svc federation.ServiceID, list []string) {
	if before := s.replace(svc, list); len(list) > 0 && !slices.Equal(before, list) {
		s.log.Warn(s.message, zap.Stringer("service", svc), zap.Strings("problems", list))
	}
}

// replace sets the problems of a Service and returns the previous ones.
func (s *Store) replace(svc federation.ServiceID, list []string) (before []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.all[svc]
	if len(list) == 0 {
		delete(s.all, svc)
	} else {
		s.all[svc] = list
	}
	return before
}

// Clear removes all problems.
func (s *Store) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.all)
}

// Of returns the problems of a Service.
func (s *Store) Of(svc federation.ServiceID) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[svc]
}

// All returns the Services that have problems, sorted by name.
func (s *Store) All() []adminapi.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]adminapi.Problem, 0, len(s.all))
	for svc, problems := range s.all {
		list = append(list, adminapi.Problem{Service: svc.String(), Problems: problems})
	}
	slices.SortFunc(list, func(a, b adminapi.Problem) int { return cmp.Compare(a.Service, b.Service) })
	return list
}
