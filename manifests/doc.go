// Package manifests holds the files that a user applies to clusters and monitoring:
//
//   - install: Isthmus beside Linkerd's control plane, with its permissions in the local cluster
//     (rbac.yaml).
//   - install/exports: the permissions to write Services for the exports of linked clusters. Its
//     folder guard has policies that limit these permissions.
//   - install/mcs-crds: the CRDs ServiceExport and ServiceImport, as a component.
//   - linkerd: a component that replaces Linkerd's destination container with Isthmus.
//   - policy, below install and linkerd: components with Linkerd's authorization policy.
//   - names, below install, install/exports, install/exports/linkerd and link: transformers that
//     add the namespace of another installation to cluster-scoped names.
//   - chart: a Helm chart with the content of install.
//   - link: an account in a linked cluster, with its permissions there (remote-access.yaml).
//   - link.yaml: an example of a link Secret.
//   - dashboards: dashboards for Grafana.
//   - alerts: alerting rules for Prometheus.
//   - monitoring: the dashboards and alerting rules as objects of a cluster.
//   - k3d: a demo with three clusters on one machine with Docker.
//
// All folders except alerts and chart are for kubectl apply -k. See docs/install.md.
//
// "isthmus link" embeds remote-access.yaml. No other package imports this one. The end-to-end tests
// apply the files to real API servers, and run Isthmus with exactly these permissions. They also
// evaluate every query of the dashboards and alerts in a Prometheus server.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package manifests
