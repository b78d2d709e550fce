package main

import (
	"flag"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"isthmus/clusterstore"
	"isthmus/clusterstore/audit"
	"isthmus/clusterstore/cluster"
	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/cmd/isthmus/internal/logging"
	"isthmus/federation"
	"isthmus/local"
)

// auditOptions are the values of the flag for audits.
type auditOptions struct {
	auditText string

	audit time.Duration // derived by check; 0: off
}

func (o *auditOptions) auditFlag(s *flag.FlagSet) {
	s.StringVar(&o.auditText, "audit", "1h", "`INTERVAL`, from 10s to 168h, in which every service that proxies watch is compared once with what the APIs of its members' clusters have: the Service, its EndpointSlices, Pods and ExternalWorkloads. "+
		"A difference that is still there, unchanged, ten seconds later is counted in isthmus_audit_differences_total, logged, and healed: that resource of the cluster is listed again. "+
		"A cluster gets one such request a second at most; a service takes two, or three if it has Pods. With more services than that allows, each takes longer. off: nothing is compared. /debug/audit shows the last results.")
}

func (o *auditOptions) check() error {
	if o.auditText == "off" {
		return nil
	}
	var err error
	if o.audit, err = time.ParseDuration(o.auditText); err != nil || o.audit < audit.MinInterval || o.audit > audit.MaxInterval {
		return cli.Usagef("--audit is %q: give off, or a duration from 10s to 168h, such as 1h", o.auditText)
	}
	return nil
}

// newAuditor returns what audits watched services.
func newAuditor(interval time.Duration, here *local.Local, store *clusterstore.Store, table *federation.Table, log *zap.Logger, registry *prometheus.Registry, happened eventLog) (*audit.Auditor, error) {
	a, err := audit.New(audit.Options{
		Interval: interval,
		Services: table.WatchedServices,
		Cluster: func(name federation.ClusterName) (audit.Cluster, cluster.State) {
			follow := store.Followed
			if name == federation.Local {
				follow = func(federation.ClusterName) (*cluster.Cluster, cluster.State) { return here.Followed() }
			}
			c, state := follow(name)
			if c == nil {
				return nil, state // not a nil of its type
			}
			return c, state
		},
		Clusters:   func() []federation.ClusterName { return append(store.Names(), federation.Local) },
		Log:        logging.WithOwnLimit(log),
		Registerer: registry,
		Report:     happened.audited,
	})
	if err != nil {
		return nil, fmt.Errorf("--audit: %w", err)
	}
	return a, nil
}
