package server

import (
	"testing"

	"go.uber.org/zap"
)

// TestNoTraces: without a collector, calls pass no code of OpenTelemetry.
func TestNoTraces(t *testing.T) {
	if o := newTracing("", zap.NewNop()).options(); o != nil {
		t.Errorf("%d options of the gRPC server", len(o))
	}
}
