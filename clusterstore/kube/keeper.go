package kube

import (
	"context"
	"sync"
	"time"
)

const (
	readAgain  = time.Hour       // time between two reads of all facts
	retryAfter = 2 * time.Minute // if something could not be read, and it is not that the credentials may not
	listsFirst = 5 * time.Second // after which facts are read even if the cluster's objects are not listed yet
)

// Limits of looks.
const (
	// looksAtOnce is how many clusters are looked at at the same time.
	looksAtOnce = 8

	anchorsEvery  = 10 * time.Second // least time between two reads of trust anchors
	networksEvery = time.Minute      // least time between two reads of Pod networks
	lookWithin    = 10 * time.Second // time limit of one look at one cluster
	// After a look has timed out, the cluster is not looked at for this long:
	// each look takes a turn from other clusters.
	pauseAfter = time.Minute
)

// Turns limit how many clusters are looked at at the same time.
type Turns chan struct{}

// NewTurns returns turns for looksAtOnce clusters.
func NewTurns() Turns { return make(Turns, looksAtOnce) }

// take waits for a turn. It returns false if ctx ends first. Without a limit, t is nil.
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

// Keeper keeps the facts of one cluster. [NewKeeper] makes one.
type Keeper struct {
	// fixed
	client    *Client
	namespace string // of the control plane
	turns     Turns
	every     time.Duration // readAgain, except in tests
	asked     chan struct{} // has a value while Run is to look

	mu     sync.Mutex
	facts  *Facts        // nil: nothing has been read yet
	looked chan struct{} // closed by the end of the look that is asked for or under way; nil: there is none
	// When a look has last tried to read, and when it may try again after it ran out of time.
	anchorsTried, networksTried, paused time.Time
}

// NewKeeper returns a Keeper that has read nothing. namespace is the control plane's.
func NewKeeper(client *Client, namespace string, turns Turns) *Keeper {
	return &Keeper{client: client, namespace: namespace, turns: turns, every: readAgain, asked: make(chan struct{}, 1)}
}

// Facts returns what was read last. If nothing has been read yet, it returns nil.
func (k *Keeper) Facts() *Facts {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.facts
}

// Look makes Run read the facts that are due again. It returns a channel that is closed once Run has read
// them, and at once if none are due. The channel stays open until the API server has answered for the first time.
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

// due returns what a look may read. mu is held.
func (k *Keeper) due(now time.Time) (anchors, networks bool) {
	if now.Before(k.paused) {
		return false, false
	}
	return now.Sub(k.anchorsTried) >= anchorsEvery, now.Sub(k.networksTried) >= networksEvery
}

// Run reads facts once the API server has answered and its objects are listed, again every hour, and
// when Look asks for it. It returns when ctx ends.
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

// serveLooks serves calls of Look for the time wait. It returns false if ctx has ended.
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

// look reads what is due, the trust anchors first, which are small. Facts stay as they were, with their
// age, if the API server does not tell the present state.
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

	ctx, cancel := context.WithTimeout(ctx, lookWithin)
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

// store replaces the facts. It notes what was tried to be read.
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

// pause makes further looks read nothing for a while, because the last look has timed out.
func (k *Keeper) pause() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.paused = time.Now().Add(pauseAfter)
}

// endLook tells those that wait for a look that it has ended.
func (k *Keeper) endLook() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.looked != nil {
		close(k.looked)
		k.looked = nil
	}
}
