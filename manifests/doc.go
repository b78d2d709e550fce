// Package manifests holds what a user applies: the rights that the gateway
// needs in its own cluster and in a linked one, an example of a link, dashboards
// for Grafana and alerting rules for Prometheus. Nothing imports it; the
// end-to-end tests apply the files to real API servers, run the gateway with
// exactly these rights, and ask a Prometheus server whatever the dashboards and
// alerts ask.
//
// ARCHITECTURE.md, at the module's root, says how the packages work together.
package manifests
