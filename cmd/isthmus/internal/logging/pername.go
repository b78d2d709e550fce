package logging

import (
	"sync"

	"go.uber.org/zap"
)

// PerName keeps a logger with a limit of its own for each name, such as a cluster's, so
// that one that floods the log silences no other. It is safe for concurrent use.
type PerName struct {
	log *zap.Logger

	mu     sync.Mutex
	byName map[string]*zap.Logger
}

// maxNames bounds PerName. It is far above what a gateway links.
const maxNames = 1000

// NewPerName returns loggers like log.
func NewPerName(log *zap.Logger) *PerName {
	return &PerName{log: log, byName: make(map[string]*zap.Logger)}
}

// Logger returns the logger of a name: the same one each time, unless there have been
// more than a thousand names in between.
func (p *PerName) Logger(name string) *zap.Logger {
	p.mu.Lock()
	defer p.mu.Unlock()
	log := p.byName[name]
	if log == nil {
		if len(p.byName) == maxNames {
			clear(p.byName) // most of them are no longer there
		}
		log = WithOwnLimit(p.log)
		p.byName[name] = log
	}
	return log
}
