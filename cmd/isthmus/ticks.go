package main

import (
	"context"
	"time"

	"isthmus/federation"
)

// runTicks calls the table whenever something is due to change by the passing of time. It
// returns when ctx ends.
func runTicks(ctx context.Context, table *federation.Table) error {
	for {
		at, changed := table.Due()
		var due <-chan time.Time
		if !at.IsZero() {
			due = time.After(time.Until(at))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-due:
			table.Tick()
		}
	}
}
