package clusterstore

import (
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	discoveryv1client "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/crd"
	"isthmus/federation"
)

// clients is a cluster's API as far as we use it.
type clients struct {
	core      corev1client.CoreV1Interface
	discovery discoveryv1client.DiscoveryV1Interface
	metadata  metadata.Interface
	servers   lister[*crd.ServerList]
	workloads lister[*crd.ExternalWorkloadList]
	profiles  lister[*crd.ServiceProfileList]
	close     func() // lets go of idle connections
	// noWatchList: the API can't stream a list (test fakes can't).
	noWatchList bool
}

// dial prepares to talk to a cluster; nothing is sent yet. Each cluster has
// connections of its own, so that closing one cluster's never disturbs another,
// and no client-side rate limit, since all it does is a handful of watches.
func dial(name federation.ClusterName, from *rest.Config, m *Metrics) (clients, error) {
	cfg := rest.CopyConfig(from)
	cfg.QPS = -1
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	if cfg.UserAgent == "" {
		cfg.UserAgent = "isthmus"
	}
	client, closeIdle, err := newHTTPClient(name, cfg)
	if err != nil {
		return clients{}, err
	}
	client.Transport = m.transport(name, client.Transport)
	api := clients{close: closeIdle}
	if api.core, err = corev1client.NewForConfigAndClient(cfg, client); err != nil {
		return clients{}, err
	}
	if api.discovery, err = discoveryv1client.NewForConfigAndClient(cfg, client); err != nil {
		return clients{}, err
	}
	if api.metadata, err = metadata.NewForConfigAndClient(metadata.ConfigFor(cfg), client); err != nil {
		return clients{}, err
	}
	if err := api.dialCustom(cfg, client); err != nil {
		return clients{}, err
	}
	return api, nil
}

// dialCustom prepares for custom resources, which API servers have as JSON only.
func (c *clients) dialCustom(from *rest.Config, client *http.Client) error {
	scheme := crd.NewScheme()
	cfg := rest.CopyConfig(from)
	cfg.APIPath = "/apis"
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	parameters := runtime.NewParameterCodec(scheme)
	group := func(v schema.GroupVersion) (*rest.RESTClient, error) {
		cfg := rest.CopyConfig(cfg)
		cfg.GroupVersion = &v
		return rest.RESTClientForConfigAndClient(cfg, client)
	}
	policy, err := group(crd.PolicyVersion)
	if err != nil {
		return err
	}
	workload, err := group(crd.WorkloadVersion)
	if err != nil {
		return err
	}
	profile, err := group(crd.ProfileVersion)
	if err != nil {
		return err
	}
	c.servers = gentype.NewClientWithList("servers", policy, parameters, "",
		func() *crd.Server { return &crd.Server{} }, func() *crd.ServerList { return &crd.ServerList{} })
	c.workloads = gentype.NewClientWithList("externalworkloads", workload, parameters, "",
		func() *crd.ExternalWorkload { return &crd.ExternalWorkload{} }, func() *crd.ExternalWorkloadList { return &crd.ExternalWorkloadList{} })
	c.profiles = gentype.NewClientWithList("serviceprofiles", profile, parameters, "",
		func() *crd.ServiceProfile { return &crd.ServiceProfile{} }, func() *crd.ServiceProfileList { return &crd.ServiceProfileList{} })
	return nil
}

// NewLocalClient returns a client of the cluster that the gateway runs in, with
// the same limits and metrics as a Cluster's: for a Store, to read link Secrets by.
func NewLocalClient(from *rest.Config, m *Metrics) (kubernetes.Interface, error) {
	cfg := rest.CopyConfig(from)
	cfg.QPS = -1
	client, _, err := newHTTPClient(federation.Local, cfg)
	if err != nil {
		return nil, err
	}
	client.Transport = m.transport(federation.Local, client.Transport)
	return kubernetes.NewForConfigAndClient(cfg, client)
}
