package logging

import (
	"sync"

	"go.uber.org/zap"
)

// PerCluster keeps a logger with a limit of its own for each cluster, so that a
// cluster that floods its log silences no other. It is safe for concurrent use.
type PerCluster struct {
	log *zap.Logger

	mu     sync.Mutex
	byName map[string]*zap.Logger
}

// maxClusters bounds PerCluster. It is far above what a gateway links.
const maxClusters = 1000

// NewPerCluster returns loggers like log.
func NewPerCluster(log *zap.Logger) *PerCluster {
	return &PerCluster{log: log, byName: make(map[string]*zap.Logger)}
}

// Logger returns the logger of a cluster: the same one each time, unless there
// have been more than a thousand clusters in between.
func (p *PerCluster) Logger(cluster string) *zap.Logger {
	p.mu.Lock()
	defer p.mu.Unlock()
	log := p.byName[cluster]
	if log == nil {
		if len(p.byName) == maxClusters {
			clear(p.byName) // most of them are no longer linked
		}
		log = WithOwnLimit(p.log)
		p.byName[cluster] = log
	}
	return log
}
