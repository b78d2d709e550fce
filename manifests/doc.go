// Package manifests contains the files that users apply to clusters and monitoring systems:
//
//	install                 Isthmus next to Linkerd's control plane; rbac.yaml grants permissions in the local cluster
//	install/exports         a component with the permissions to write Services for the exports of linked clusters
//	install/exports/guard   policies that limit the permissions in install/exports
//	install/mcs-crds        a component with the CRDs of ServiceExport and ServiceImport
//	install/policy          a component with Linkerd authorization policies (linkerd/policy for linkerd)
//	linkerd                 a component that replaces Linkerd's destination container with Isthmus
//	chart                   a Helm chart that installs the same objects as install
//	link                    an account with permissions in a linked cluster (remote-access.yaml)
//	link.yaml               an example of a link Secret
//	dashboards              dashboards for Grafana
//	alerts                  alerting rules for Prometheus
//	monitoring              the dashboards and alerting rules as objects in a cluster
//	k3d                     a demo that runs three clusters on one machine with Docker
//
// To use a different namespace for Isthmus, or for its account in a linked cluster, add the
// transformers from the folders called "names". These transformers add the namespace to the names
// of cluster-scoped objects. If the kustomization.yaml of a folder is a Component, include the
// folder in your own kustomization. Apply the other folders with kubectl apply -k, as
// docs/install.md describes.
//
// The command "isthmus link" embeds remote-access.yaml. The end-to-end tests apply the files to
// real API servers, and run Isthmus with the permissions that the files grant. The end-to-end tests
// also run every dashboard query and every alert query on a Prometheus server.
//
// See ARCHITECTURE.md at the root of the module for how the packages work together.
package manifests
