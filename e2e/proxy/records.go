package proxy

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Records are the DNS records of a headless Service: the addresses of its replicas.
type Records struct {
	mu    sync.Mutex
	addrs []string
}

// NewRecords returns the records of these addresses.
func NewRecords(addrs ...string) *Records { return &Records{addrs: addrs} }

// Set replaces the addresses.
func (r *Records) Set(addrs ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addrs = addrs
}

func (r *Records) lookup() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.addrs
}

// cache is what one proxy has last looked up.
type cache struct {
	records *Records

	mu    sync.Mutex
	addrs []string
}

func (c *cache) refresh() {
	addrs := c.records.lookup()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addrs = addrs
}

func (c *cache) known() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.addrs)
}

// run looks the records up again whenever their time to live is over.
func (c *cache) run(ctx context.Context, ttl time.Duration) {
	over := time.NewTicker(ttl)
	defer over.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-over.C:
			c.refresh()
		}
	}
}
