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
	linked, unlinked := logging.NewPerName(log), logging.WithOwnLimit(log)
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

// reportAddresses returns a federation.Options.ReportRefused and a ReportConflict that
// log when the first address of a member is refused, or sent from another member. Each
// cluster has a limit of its own.
func reportAddresses(log *zap.Logger) (
	refused func(federation.ServiceID, uint16, federation.Member, federation.Refusal, int),
	conflict func(federation.ServiceID, uint16, federation.Member, federation.Conflict),
) {
	linked := logging.NewPerName(log)
	fields := func(id federation.ServiceID, port uint16, m federation.Member) []zap.Field {
		return []zap.Field{zap.Stringer("service", id), zap.Uint16("port", port), zap.Stringer("cluster", m.Cluster), zap.Stringer("member", m.Service)}
	}
	refused = func(id federation.ServiceID, port uint16, m federation.Member, first federation.Refusal, n int) {
		linked.Logger(m.Cluster.String()).Warn("addresses that a cluster offers are refused",
			append(fields(id, port, m), zap.Int("refused", n), zap.Stringer("first", first))...)
	}
	conflict = func(id federation.ServiceID, port uint16, m federation.Member, first federation.Conflict) {
		linked.Logger(m.Cluster.String()).Warn("an address that a member offers is another member's",
			append(fields(id, port, m), zap.Stringer("first", first))...)
	}
	return refused, conflict
}
