// Package manifests contains the files that users apply to clusters and monitoring systems:
//
//   - install: installs Isthmus next to Linkerd's control plane. The file rbac.yaml grants
//     permissions in the local cluster.
//   - install/exports: grants permissions to write Services for the exports of linked clusters. The
//     policies in the folder install/exports/guard limit these permissions.
//   - install/mcs-crds: a component that installs the CRDs of ServiceExport and ServiceImport.
//   - linkerd: a component that replaces Linkerd's destination container with Isthmus.
//   - install/policy and linkerd/policy: components that add Linkerd authorization policies.
//   - The folders called names contain transformers that add the namespace of another installation
//     to cluster-scoped names.
//   - chart: a Helm chart that installs the same objects as the folder install.
//   - link: creates an account with permissions in a linked cluster (remote-access.yaml).
//   - link.yaml: contains an example of a link Secret.
//   - dashboards: contains dashboards for Grafana.
//   - alerts: contains alerting rules for Prometheus.
//   - monitoring: installs the dashboards and alerting rules as objects in a cluster.
//   - k3d: a demo that runs three clusters on one machine with Docker.
//
// All folders except alerts and chart can be applied with kubectl apply -k. See docs/install.md.
//
// "isthmus link" embeds remote-access.yaml. No other package imports this one. The end-to-end tests
// apply the files to real API servers, and run Isthmus with exactly these permissions. The
// end-to-end tests also evaluate every query of the dashboards and alerts in a Prometheus server.
//
// See ARCHITECTURE.md at the root of the module for how the packages work together.
package manifests
