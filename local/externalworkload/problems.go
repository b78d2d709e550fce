package externalworkload

import (
	"cmp"
	"slices"
	"sync"

	"go.uber.org/zap"

	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// Problems records which parts of Services cannot be used, and why. The problems of a Service are
// logged once, when they appear or change. A [Writer] records endpoints and ports that are missing
// from slices, and package local records invalid annotations and labels. All methods are safe for
// concurrent use.
type Problems struct {
	log     *zap.Logger
	message string

	mu  sync.Mutex
	all map[federation.ServiceID][]string
}

// NewProblems returns an empty Problems. Each log entry about the problems of a Service has the
// given message.
func NewProblems(log *zap.Logger, message string) *Problems {
	return &Problems{log: log, message: message, all: make(map[federation.ServiceID][]string)}
}

// Set replaces the list of problems recorded for a Service. An empty list removes all recorded
// problems of the Service.
func (p *Problems) Set(svc federation.ServiceID, list []string) {
	if before := p.replace(svc, list); len(list) > 0 && !slices.Equal(before, list) {
		p.log.Warn(p.message, zap.Stringer("service", svc), zap.Strings("problems", list))
	}
}

func (p *Problems) replace(svc federation.ServiceID, list []string) (before []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before = p.all[svc]
	if len(list) == 0 {
		delete(p.all, svc)
	} else {
		p.all[svc] = list
	}
	return before
}

func (p *Problems) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.all)
}

func (p *Problems) Of(svc federation.ServiceID) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[svc]
}

// All returns the Services that have problems, sorted by name.
func (p *Problems) All() []adminapi.Problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]adminapi.Problem, 0, len(p.all))
	for svc, problems := range p.all {
		list = append(list, adminapi.Problem{Service: svc.String(), Problems: problems})
	}
	slices.SortFunc(list, func(a, b adminapi.Problem) int { return cmp.Compare(a.Service, b.Service) })
	return list
}
