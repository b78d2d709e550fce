package kube

import (
	"context"
	"sync"
	"time"
)

const (
	readAgain  = time.Hour       // interval between two reads of all facts
	retryAfter = 2 * time.Minute // interval after a failure other than a missing permission
	listsFirst = 5 * time.Second // facts are read after this time even if the cluster's objects are not listed yet
)

// The following limits apply to reads that are triggered by calls to Look.
const (
	looksAtOnce = 8

	anchorsEvery  = 10 * time.Second // shortest interval between two reads of trust anchors
	networksEvery = time.Minute      // shortest interval between two reads of Pod networks
	lookTimeout   = 10 * time.Second // timeout of one look at one cluster
	// pauseAfter is how long a cluster is skipped after a read of its facts has timed out. Without
	// the pause, an unresponsive cluster would keep other clusters waiting.
	pauseAfter = time.Minute
)

// Turns limits the number of clusters whose facts [Keeper.Run] reads at the same time in response
// to [Keeper.Look].
type Turns chan struct{}

// NewTurns returns Turns that let the facts of up to eight clusters be read at the same time.
func NewTurns() Turns { return make(Turns, looksAtOnce) }

// The take method waits for a turn. If ctx is done before the turn begins, the result is false. If
// t is nil, the number of turns is not limited.
func (t Turns) take(ctx context.Context) bool {
	if t == nil {
		return true
	}
	select {
	case t <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (t Turns) giveBack() {
	if t != nil {
		<-t
	}
}

// Keeper reads and caches the facts about one cluster.
type Keeper struct {
	// fixed
	client    *Client
	namespace string // namespace of the control plane
	turns     Turns
	every     time.Duration // readAgain, except in tests
	asked     chan struct{} // has a value while a look is requested

	mu     sync.Mutex
	facts  *Facts        // nil before the first read
	looked chan struct{} // closed when the requested or running look ends; nil if there is none
	// anchorsTried and networksTried are the times of the last attempts to read trust anchors and
	// Pod networks. After a read has timed out, calls to Look do not start any reads until the time
	// in the paused field.
	anchorsTried, networksTried, paused time.Time
}

// NewKeeper returns a Keeper that has not read any facts yet. The namespace argument is the
// namespace of the control plane.
func NewKeeper(client *Client, namespace string, turns Turns) *Keeper {
	return &Keeper{client: client, namespace: namespace, turns: turns, every: readAgain, asked: make(chan struct{}, 1)}
}

// Facts returns the cached facts, or nil if no facts have been read yet.
func (k *Keeper) Facts() *Facts {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.facts
}

// Look asks Run to read the trust anchors and the Pod networks again. The trust anchors are read at
// most once every 10 s, and the Pod networks at most once every minute. The returned channel is
// closed once Run has read the facts, or immediately if Run has no facts to read. The channel stays
// open at least until the API server has sent its first response.
func (k *Keeper) Look() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	anchors, networks := k.due(time.Now())
	if k.looked == nil && k.facts != nil && !anchors && !networks {
		recent := make(chan struct{})
		close(recent)
		return recent
	}
	if k.looked == nil {
		k.looked = make(chan struct{})
	}
	select {
	case k.asked <- struct{}{}:
	default:
	}
	return k.looked
}

// The due method reports which facts Run must read if Look is called at the given time: the trust
// anchors, the Pod networks, both or neither. The caller holds k.mu.
func (k *Keeper) due(now time.Time) (anchors, networks bool) {
	if now.Before(k.paused) {
		return false, false
	}
	return now.Sub(k.anchorsTried) >= anchorsEvery, now.Sub(k.networksTried) >= networksEvery
}

// Run reads the facts after the API server's first response, and then every hour. Before the first
// read, Run waits up to 5 s for the cluster's objects to be listed. If the facts are incomplete,
// Run reads them again after two minutes. After a call to Look, Run also reads the trust anchors
// and the Pod networks, unless they were read recently. Run returns when ctx is done.
func (k *Keeper) Run(ctx context.Context, listed <-chan struct{}) {
	defer k.endLook()
	select {
	case <-k.client.Answered():
	case <-ctx.Done():
		return
	}
	select {
	case <-listed:
	case <-time.After(listsFirst):
	case <-ctx.Done():
		return
	}
	for {
		facts, complete := Read(ctx, k.client, k.namespace)
		if ctx.Err() != nil {
			return
		}
		k.store(*facts, true, true)
		k.endLook()
		wait := k.every
		if !complete {
			wait = retryAfter
		}
		if !k.serveLooks(ctx, wait) {
			return
		}
	}
}

// serveLooks waits for the given duration, and handles each call to Look in the meantime. If ctx is
// done before the duration has passed, serveLooks returns false.
func (k *Keeper) serveLooks(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case <-k.asked:
			k.look(ctx)
		}
	}
}

// The look method reads the trust anchors and then the Pod networks, unless they were read
// recently. The trust anchors are read first, because determining the Pod networks requires a list
// of all Nodes, which may be large. A failure that does not show the current state of the cluster,
// such as a timeout, does not replace facts that were read successfully.
func (k *Keeper) look(ctx context.Context) {
	defer k.endLook()
	if !k.turns.take(ctx) {
		return
	}
	defer k.turns.giveBack()
	k.mu.Lock()
	f := *k.facts
	anchors, networks := k.due(time.Now())
	k.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if anchors {
		now := f
		if err := now.readAnchors(ctx, k.client, k.namespace); tellsPresent(err) || f.anchors.Error != "" {
			f = now
		}
		k.store(f, true, false)
	}
	if networks {
		now := f
		if err := now.readNetworks(ctx, k.client); tellsPresent(err) || f.networks.Error != "" {
			f = now
		}
		k.store(f, false, true)
	}
	if ctx.Err() == context.DeadlineExceeded {
		k.pause()
	}
}

func (k *Keeper) store(f Facts, anchors, networks bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.facts = &f
	if anchors {
		k.anchorsTried = time.Now()
	}
	if networks {
		k.networksTried = time.Now()
	}
}

func (k *Keeper) pause() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.paused = time.Now().Add(pauseAfter)
}

func (k *Keeper) endLook() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.looked != nil {
		close(k.looked)
		k.looked = nil
	}
}
