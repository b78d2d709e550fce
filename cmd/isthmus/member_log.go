package main

import (
	"go.uber.org/zap"

	"isthmus/cmd/isthmus/internal/logging"
	"isthmus/federation"
)

// reportMember returns a federation.Options.Report that logs when a member begins
// or ceases to serve. Each linked cluster has a limit of its own; clusters that are
// named by annotations only share one, since annotations may name any number.
func reportMember(log *zap.Logger) func(federation.ServiceID, federation.Member, federation.MemberStatus) {
	linked, unlinked := logging.NewPerCluster(log), logging.WithOwnLimit(log)
	return func(id federation.ServiceID, m federation.Member, s federation.MemberStatus) {
		log := unlinked
		if s.Link != federation.Unlinked {
			log = linked.Logger(m.Cluster.String())
		}
		fields := []zap.Field{zap.Stringer("service", id), zap.Stringer("cluster", m.Cluster), zap.Stringer("member", m.Service)}
		if s.Serving() {
			log.Info("member of a service serves again", fields...)
			return
		}
		log.Info("member of a service does not serve", append(fields, zap.Stringer("reason", s))...)
	}
}
