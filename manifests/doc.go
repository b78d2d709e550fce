// Package manifests holds the files that a user applies to clusters and monitoring:
//
//   - rbac.yaml: the gateway's rights in its own cluster;
//   - remote-access.yaml: its rights in a linked cluster;
//   - link.yaml: an example of a link Secret;
//   - dashboards: for Grafana;
//   - alerts: alerting rules for Prometheus;
//   - install: the gateway on its own, to be applied with kubectl apply -k, as the following are;
//   - linkerd: the gateway in place of a container of Linkerd's;
//   - link: what a cluster that is linked grants;
//   - monitoring: dashboards and alerting rules as objects of a cluster.
//
// docs/install.md explains them. "isthmus link" embeds remote-access.yaml; nothing else
// imports this package. The end-to-end tests apply the files to real API servers, run
// the gateway with exactly these rights, and evaluate every query of the dashboards and
// alerts in a Prometheus server.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package manifests
