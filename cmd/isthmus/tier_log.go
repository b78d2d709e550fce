package main

import (
	"go.uber.org/zap"

	"isthmus/cmd/isthmus/internal/logging"
	"isthmus/federation"
)

// reportTiers returns a federation.Options.ReportTiers that logs when clients come to use
// more tiers of a service, or fewer. Each namespace has a limit of its own: when a cluster
// is lost, all services may change at once.
func reportTiers(log *zap.Logger) func(federation.TierChange) {
	namespaces := logging.NewPerName(log)
	return func(c federation.TierChange) {
		message := "clients use more tiers of a service"
		if c.To < c.From {
			message = "clients use fewer tiers of a service"
		}
		namespaces.Logger(c.Service.Namespace).Info(message, zap.Stringer("service", c.Service), zap.String("zone", c.Zone),
			zap.Int("from", c.From), zap.Int("to", c.To), zap.String("tiers", c.Tiers()), zap.String("why", c.Why))
	}
}
