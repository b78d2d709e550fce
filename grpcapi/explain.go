package grpcapi

import (
	"context"
	"slices"

	"google.golang.org/grpc/metadata"

	"isthmus/federation"
)

// A client whose Get has this metadata, which no proxy sends, gets the endpoints with
// their tiers and standings: see wire.Encoder.Explaining. Its messages are encoded for it
// alone.
const (
	explainKey   = "isthmus-explain"
	explainTiers = "tiers"
)

func asksForTiers(ctx context.Context) bool {
	return slices.Equal(metadata.ValueFromIncomingContext(ctx, explainKey), []string{explainTiers})
}

// tiersChanged reports whether the tiers of a set's endpoints have changed since they were sent to a client that asks
// for them.
func (st *getStream) tiersChanged(set *federation.Set) bool {
	if !st.explains {
		return false
	}
	var now federation.Tiers
	now, st.otherTiers = set.Tiers()
	return now != st.tiers
}
