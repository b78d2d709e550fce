package plan

import (
	"slices"
	"strings"
)

// software describes programs that identify their objects by labels or annotations. If a label by
// which a program identifies its objects were copied to another cluster, the same program in that
// cluster might change or delete the copied object.
type software struct {
	kind    string // as in docs/exports.md
	domains []string
	keys    []string
}

// excludedSoftware lists the keys that are never copied. A domain includes its subdomains. The same
// list is in docs/exports.md.
var excludedSoftware = []software{
	{
		kind: "Kubernetes",
		domains: []string{
			"amazonaws.com", "azure.com", "cloud.google.com", "gke.io", "k8s.aws", "k8s.io", "kubernetes.io",
			"openshift.io", "x-k8s.io",
		},
		keys: []string{"app.kubernetes.io/instance", "app.kubernetes.io/managed-by"},
	},
	{
		kind: "Service meshes and gateways",
		domains: []string{
			"cilium.io", "consul.hashicorp.com", "dapr.io", "envoyproxy.io", "getambassador.io", "io.cilium",
			"isthmus.io", "istio.io", "kgateway.dev", "knative.dev", "konghq.com", "kuma.io", "linkerd.io",
			"ngrok.com", "projectcontour.io", "sailoperator.io", "skupper.io", "solo.io", "submariner.io",
			"tailscale.com", "traefik.io",
		},
	},
	{
		kind: "Deployment tools",
		domains: []string{
			"akuity.io", "argoproj.io", "carvel.dev", "cattle.io", "crossplane.io", "flagger.app",
			"flux.weave.works", "fluxcd.controlplane.io", "fluxcd.io", "garden.io", "gardener.cloud",
			"harness.io", "helm.sh", "jenkins-x.io", "k14s.io", "kluctl.io", "kots.io", "kpt.dev", "kratix.io",
			"kro.run", "kruise.io", "oam.dev", "okteto.com", "projectsveltos.io", "pulumi.com", "skaffold.dev",
			"spinnaker.io", "tekton.dev", "tilt.dev", "timoni.sh", "werf.io", "zarf.dev",
		},
	},
	{
		kind: "Operator frameworks, policies and backups",
		domains: []string{
			"cert-manager.io", "clastix.io", "coreos.com", "kasten.io", "kopf.dev", "kyverno.io",
			"metacontroller.io", "openshift.com", "operator-sdk", "operatorframework.io", "velero.io",
		},
		keys: []string{
			"olm.catalogSource", "olm.copiedFrom", "olm.managed", "olm.operatorGroup", "olm.operatorNamespace",
			"olm.owner", "olm.owner.kind", "olm.owner.namespace", "olm.service-spec-hash",
			"operated-alertmanager", "operated-prometheus", "operated-thanos-ruler",
		},
	},
	{
		kind: "Clusters of clusters",
		domains: []string{
			"admiralty.io", "clusternet.io", "karmada.io", "kubeadmiral.io", "kubefed.io", "kubesphere.io",
			"kubestellar.io", "liqo.io", "loft.sh", "open-cluster-management.io",
		},
	},
	{
		kind: "Databases",
		domains: []string{
			"aerospike.com", "altinity.com", "appscode.com", "arangodb.com", "clickhouse.com", "cnpg.io",
			"cockroachlabs.com", "couchbase.com", "crunchydata.com", "datastax.com", "dragonflydb.io",
			"hazelcast.com", "infinispan.org", "k8s.elastic.co", "k8s.enterprisedb.io", "k8ssandra.io",
			"kubeblocks.io", "kubedb.com", "mariadb.com", "moco.cybozu.com", "mongodb.com", "mysql.oracle.com",
			"neo4j.com", "opensearch.org", "opster.io", "percona.com", "pingcap.com", "planetscale.com",
			"redis.io", "redislabs.com", "scylla", "scylladb.com", "solr.apache.org", "spotahome.com",
			"stackable.tech", "stackgres.io", "yugabyte.com", "zalan.do",
		},
		keys: []string{
			"arango_deployment", "couchbase_cluster", "crunchy-pgha-scope", "druid_cr", "etcd_cluster",
			"infinispan_cr", "pg-cluster", "spilo-role", "stolon-cluster", "vault_cr",
		},
	},
	{
		kind: "Messaging and integration",
		domains: []string{
			"banzaicloud.io", "camel.apache.org", "confluent.io", "pravega.io", "rabbitmq.com", "redpanda.com",
			"streamnative.io", "strimzi.io", "vectorized.io",
		},
		keys: []string{"kafka_cr", "nats_cluster", "nifi_cr"},
	},
	{
		kind:    "Storage",
		domains: []string{"longhorn.io", "min.io", "openebs.io", "portworx.io", "rook.io"},
		keys:    []string{"rook_cluster"},
	},
	{
		kind: "Workloads and observability",
		domains: []string{
			"agones.dev", "dask.org", "flink.apache.org", "grafana.com", "jaegertracing.io", "jupyter.org",
			"keda.sh", "keycloak.org", "kserve.io", "kubeflow.org", "kubevirt.io", "opentelemetry.io", "ray.io",
			"seldon.io", "victoriametrics.com", "volcano.sh",
		},
	},
}

var excludedDomains, excludedKeys = func() (domains, keys map[string]bool) {
	domains = make(map[string]bool)
	keys = make(map[string]bool)
	for _, o := range excludedSoftware {
		for _, domain := range o.domains {
			domains[domain] = true
		}
		for _, key := range o.keys {
			keys[key] = true
		}
	}
	return domains, keys
}()

// commonDomain is the prefix of the labels that Kubernetes recommends, such as
// app.kubernetes.io/name. A key with this prefix is excluded only if excludedKeys contains the key.
const commonDomain = "app.kubernetes.io"

// The excluded function reports whether other software might use the given key to identify its own
// objects. If a key is longer than the API accepts, the result is false, because looking up all
// parent domains would take too long.
func excluded(key string) bool {
	if len(key) > maxKey {
		return false
	}
	if excludedKeys[key] {
		return true
	}
	domain, _, ok := strings.Cut(key, "/")
	if !ok || domain == commonDomain {
		return false
	}
	for domain != "" {
		if excludedDomains[domain] {
			return true
		}
		_, domain, _ = strings.Cut(domain, ".")
	}
	return false
}

// preferenceKeys are the annotations that define a preference. A preference is copied only from the
// Service in the local cluster.
var preferenceKeys = []string{
	"isthmus.io/prefer", "isthmus.io/min-ready", "isthmus.io/return-after", "isthmus.io/return-over",
}

func copyLabel(exclude KeyPatterns) keyRule {
	return func(key string) (copied bool, reason string) { return !excluded(key) && !exclude.match(key), "" }
}

// copyAnnotation selects the annotations that configure proxies. Other annotations configure
// controllers.
func copyAnnotation(key string) (copied bool, reason string) {
	copied = key == "config.linkerd.io/opaque-ports" ||
		inDomain(key, "retry.linkerd.io", "timeout.linkerd.io", "balancer.linkerd.io", "balancer.alpha.linkerd.io")
	return copied, ""
}

// copyExported reports whether a key from the exportedAnnotations of a ServiceExport is copied
// (KEP-1645).
func copyExported(key string) (copied bool, reason string) {
	if excluded(key) {
		return false, "not copied, because other software may identify its objects by this key"
	}
	return true, ""
}

func copyExportedLabel(exclude KeyPatterns) keyRule {
	return func(key string) (copied bool, reason string) {
		if exclude.match(key) {
			return false, "not copied, because --export-exclude-labels or the link's annotation excludes this key"
		}
		return copyExported(key)
	}
}

func isPreference(key string) (copied bool, reason string) {
	return slices.Contains(preferenceKeys, key), ""
}
