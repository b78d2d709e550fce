package grpcapi

import (
	"context"
	"slices"

	"google.golang.org/grpc/metadata"

	"isthmus/federation"
)

// A client whose Get has this metadata, which no proxy sends, gets the endpoints with
// their tiers and standings: see wire.Encoder.Explaining. What it is sent is encoded for
// it alone, as for a client of an undeclared port.
const (
	explainKey   = "isthmus-explain"
	explainTiers = "tiers"
)

func asksForTiers(ctx context.Context) bool {
	return slices.Equal(metadata.ValueFromIncomingContext(ctx, explainKey), []string{explainTiers})
}

// explaining is what the stream of a client has that asks for tiers; nil: of a proxy.
type explaining struct {
	tiers   federation.Tiers // that its endpoints have been sent with
	changed <-chan struct{}  // closed once there are others
}

// changes returns a channel that is closed once the tiers have changed.
func (x *explaining) changes() <-chan struct{} {
	if x == nil {
		return nil
	}
	return x.changed
}

// outdated reports whether the tiers of a set's endpoints have changed since they were sent.
func (x *explaining) outdated(set *federation.Set) bool {
	if x == nil {
		return false
	}
	now, changed := set.Tiers()
	x.changed = changed
	return now != x.tiers
}

// use notes that a set's endpoints are sent with its tiers.
func (x *explaining) use(set *federation.Set) {
	if x != nil {
		x.tiers, x.changed = set.Tiers()
	}
}
