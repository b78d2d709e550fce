package clusterstore

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	discoveryv1client "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/crd"
	"isthmus/federation"
)

// Limits of one connection or request. Together they turn every way that an API
// server can be away into an error within some seconds: not there (dial), accepts
// and is silent (TLS handshake, response header), or went away without a word
// (pings). API servers send the header of a watch at once, so that the
// limit holds for watches too.
const (
	dialTimeout   = 5 * time.Second
	headerTimeout = 10 * time.Second
	pingAfter     = 10 * time.Second
	pingTimeout   = 5 * time.Second
)

// clients is a cluster's API as far as we use it.
type clients struct {
	core      corev1client.CoreV1Interface
	discovery discoveryv1client.DiscoveryV1Interface
	metadata  metadata.Interface
	servers   lister[*crd.ServerList]
	workloads lister[*crd.ExternalWorkloadList]
	close     func() // lets go of idle connections
	// noWatchList: the API can't stream a list (test fakes can't).
	noWatchList bool
}

// dial prepares to talk to a cluster; nothing is sent yet. Each cluster has
// connections of its own, so that closing one cluster's never disturbs another,
// and no client-side rate limit, since all it does is a handful of watches.
func dial(name federation.ClusterName, from *rest.Config) (clients, error) {
	cfg := rest.CopyConfig(from)
	cfg.QPS = -1
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	if cfg.UserAgent == "" {
		cfg.UserAgent = "isthmus"
	}
	transport, err := newTransport(name, cfg)
	if err != nil {
		return clients{}, err
	}
	wrapped, err := rest.HTTPWrappersForConfig(cfg, transport)
	if err != nil {
		return clients{}, fmt.Errorf("credentials: %w", err)
	}
	// API servers don't redirect, and the one of a link must not send the
	// gateway's requests elsewhere.
	client := &http.Client{Transport: once{wrapped}, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	api := clients{close: transport.CloseIdleConnections}
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
	c.servers = gentype.NewClientWithList("servers", policy, parameters, "",
		func() *crd.Server { return &crd.Server{} }, func() *crd.ServerList { return &crd.ServerList{} })
	c.workloads = gentype.NewClientWithList("externalworkloads", workload, parameters, "",
		func() *crd.ExternalWorkload { return &crd.ExternalWorkload{} }, func() *crd.ExternalWorkloadList { return &crd.ExternalWorkloadList{} })
	return nil
}

func newTransport(name federation.ClusterName, cfg *rest.Config) (*http.Transport, error) {
	tls, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	t := &http.Transport{
		Proxy:                 cfg.Proxy,
		DialContext:           newDialer().DialContext,
		TLSClientConfig:       tls,
		TLSHandshakeTimeout:   dialTimeout,
		ResponseHeaderTimeout: headerTimeout,
		IdleConnTimeout:       90 * time.Second,
		DisableCompression:    cfg.DisableCompression,
		ForceAttemptHTTP2:     true,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
	if dial := cfg.Dial; dial != nil {
		t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, stop := context.WithTimeout(ctx, dialTimeout)
			defer stop()
			return dial(ctx, network, address)
		}
	}
	// The gateway's environment speaks for the cluster that it runs in. A link
	// is reached as its kubeconfig says, and by no detour.
	if t.Proxy == nil && name == federation.Local {
		t.Proxy = http.ProxyFromEnvironment
	}
	return t, nil
}

// newDialer finds out by itself, for servers without HTTP/2, that a host is gone.
func newDialer() *net.Dialer {
	return &net.Dialer{
		Timeout:         dialTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: pingAfter, Interval: pingTimeout, Count: 2},
	}
}

// once keeps client-go from trying a request again by itself, up to ten times
// and for as long as the server likes. Whether and when to try again is for the
// resource to decide, and for the health to know.
type once struct{ next http.RoundTripper }

func (o once) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := o.next.RoundTrip(request)
	if err != nil {
		return nil, failure{err}
	}
	response.Header.Del("Retry-After")
	return response, nil
}

// failure wraps an error without being a timeout itself.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }
