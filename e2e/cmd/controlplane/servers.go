package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"isthmus/e2e/harness/assets"
)

// etcdURL is the socket of etcd for the API server: a file named "etcd:0" in the working directory.
const etcdURL = "unix://etcd:0"

// serverOptions configures the API server and etcd of a cluster. The working directory must be dir.
type serverOptions struct {
	dir         stateDir
	listener    net.Listener // for the API server
	credentials clusterCredentials
	controllers []string
	all         bool // serve all API groups and the OpenAPI description
}

func (o serverOptions) apiServerArgs() []string {
	c, host := o.credentials, o.listener.Addr().(*net.TCPAddr).IP
	reconciler := "lease"
	if host.IsLoopback() {
		reconciler = "none" // Kubernetes rejects endpoints on loopback
	}
	return []string{
		"--etcd-servers=" + etcdURL,
		"--bind-address=" + host.String(),
		"--advertise-address=" + host.String(),
		"--endpoint-reconciler-type=" + reconciler,
		"--kubelet-preferred-address-types=InternalIP", // node names are not in DNS
		"--enable-priority-and-fairness=false",         // --max-requests-inflight is a cheaper limit for requests
		"--cert-dir=" + o.dir.Certificates(),
		"--tls-cert-file=" + c.ServerCert,
		"--tls-private-key-file=" + c.ServerKey,
		"--client-ca-file=" + c.CA,
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + c.AccountKey,
		"--service-account-signing-key-file=" + c.AccountKey,
		"--service-cluster-ip-range=10.0.0.0/16,fd00:10::/108",
	}
}

// etcdArgs returns the flags for etcd, which match the settings in startEtcd.
func (o serverOptions) etcdArgs() []string {
	return []string{
		"--data-dir=" + o.dir.EtcdData(),
		"--listen-client-urls=" + etcdURL,
		"--listen-peer-urls=unix://peer:0",
		"--advertise-client-urls=http://127.0.0.1:1",
		"--initial-advertise-peer-urls=http://127.0.0.1:2",
		"--initial-cluster=default=http://127.0.0.1:2",
		"--heartbeat-interval=100",
		"--election-timeout=1000",
		"--unsafe-no-fsync",
		"--log-level=warn",
		"--log-outputs=stderr",
	}
}

type servers struct {
	ready chan error // receives nil when the cluster is ready, or the error that prevents that
	ended chan error // receives an error when a server ends
	kill  func()     // kills child processes that could outlive this process
}

func newServers() *servers {
	const sources = 2
	return &servers{ready: make(chan error, 1), ended: make(chan error, sources), kill: func() {}}
}

func (s *servers) end(server string, err error) { s.ended <- fmt.Errorf("%s ended: %w", server, err) }

// startServers starts the servers from KUBEBUILDER_ASSETS if set, and otherwise the built-in
// servers.
func startServers(ctx context.Context, o serverOptions) (*servers, error) {
	if assets.Named() {
		return startAssets(ctx, o)
	}
	return startCompiled(ctx, o)
}

func awaitReady(ctx context.Context, loopback *rest.Config) error {
	client, err := kubernetes.NewForConfig(unlimited(loopback))
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		status := 0
		client.RESTClient().Get().AbsPath("/readyz").Do(ctx).StatusCode(&status)
		return status == http.StatusOK, nil
	})
}

func unlimited(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	return cfg
}
