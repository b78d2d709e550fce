// Package manifests holds the files that a user applies to clusters and monitoring:
//
//   - install: the gateway on its own, with its rights in its own cluster (rbac.yaml);
//   - install/exports: what it needs to write Services for what clusters export, with a guard by which the API server
//     refuses others;
//   - names, below install, install/exports, install/exports/linkerd and link: a transformer by which cluster-scoped
//     names carry the namespace of another installation;
//   - install/mcs-crds: ServiceExport and ServiceImport, as a component;
//   - chart: the same as a Helm chart;
//   - linkerd: the gateway in place of a container of Linkerd's; both have policy, as components;
//   - link: an account for it in a cluster that is linked, with its rights there (remote-access.yaml);
//   - link.yaml: an example of a link Secret;
//   - dashboards: for Grafana;
//   - alerts: alerting rules for Prometheus;
//   - monitoring: both as objects of a cluster;
//   - k3d: a demo in three clusters on one machine with docker.
//
// All folders but alerts are for kubectl apply -k; docs/install.md explains them. "isthmus
// link" embeds remote-access.yaml; nothing else imports this package. The end-to-end tests
// apply the files to real API servers, run the gateway with exactly these rights, and
// evaluate every query of the dashboards and alerts in a Prometheus server.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package manifests
