package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"isthmus/clusterstore/cluster"
	"isthmus/cmd/isthmus/internal/admin"
	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/grpcapi"
	"isthmus/grpcapi/wire"
	"isthmus/internal/adminapi"
)

// Command returns the command "isthmus gateway".
func Command() cli.Command { return command(new(options)) }

func command(o *options) cli.Command {
	return cli.Command{
		Use:        "gateway",
		Aliases:    []string{"destination"}, // as in a Linkerd install
		Summary:    "serve Linkerd's Destination API for the local cluster and all linked clusters",
		Intro:      intro,
		Ending:     ending,
		Flags:      o.sections(),
		Run:        func(ctx context.Context, p cli.Process) error { return run(ctx, p, o) },
		OwnSignals: true,
	}
}

const intro = `isthmus gateway serves Linkerd's Destination API. Isthmus watches the local
cluster and every cluster that a link Secret names, merges the endpoints of each
service across these clusters, and streams the result to proxies.

Usage: isthmus gateway [FLAGS]      (alias: isthmus destination)

Flags start with one dash or two. Their value follows "=" or a space. The value
of a boolean flag follows "=" only.`

const ending = `Examples:
  Run in a cluster, with the arguments of Linkerd's charts:
    isthmus gateway --controller-namespace linkerd --cluster-domain cluster.local \
      --identity-trust-domain cluster.local --enable-ipv6=false \
      --outbound-transport-mode transport-header \
      --default-opaque-ports 25,587,3306,4444,5432,6379,9300,11211
  Run on your machine against a cluster of your kubeconfig, to look around:
    isthmus gateway --kubeconfig ~/.kube/config --addr 127.0.0.1:8086 \
      --metrics-addr 127.0.0.1:9996 --log-level debug
    curl -s 127.0.0.1:9996/debug/clusters
    isthmus get web.shop.svc.cluster.local:80 --addr 127.0.0.1:8086

SIGTERM or SIGINT starts a graceful shutdown. A second signal ends the process at
once.

If GOMEMLIMIT is not set, Isthmus sets it to 90% of the container's memory limit.
Near the limit, Isthmus then collects garbage more often, so that the container is
not killed. If GOGC is not set, Isthmus adapts it to the memory in use, from 200 for
a small heap to 15 for a large one.`

type options struct {
	// addresses
	addr        string
	metricsAddr string
	hosts       []string // value of --admin-hosts

	// the local cluster
	kubeconfig  string
	namespace   string
	domain      string
	trustDomain string
	slices      bool

	// linked clusters
	clusterMemory int64 // zero means not set
	cacheMaxAge   time.Duration

	// without effect
	audit  string
	relist string

	preferenceOptions
	exportOptions

	// what proxies are sent
	ipv6          bool
	h2Upgrade     bool
	transport     string
	opaquePorts   string
	http2         *pb.Http2ClientParams // nil if not set
	zoneWeights   bool
	targetCluster bool

	// streams
	pace       time.Duration
	stall      time.Duration
	maxAge     time.Duration
	maxCalls   uint32
	maxStreams uint32 // zero means not set
	viewMemory int64  // zero means not set
	delay      time.Duration
	drain      time.Duration

	// logs, metrics, traces
	level          logLevel
	logFormat      string
	traces         string
	serviceMetrics bool
	pprof          bool
	queueMetrics   bool
	isVersion      bool

	notes []note // logged once there is a logger
}

// note describes a flag problem that does not prevent Isthmus from starting.
type note struct {
	level zapcore.Level
	text  string
}

func (o *options) sections() []cli.Section {
	return []cli.Section{
		cli.NewSection("Addresses", o.addressFlags),
		cli.NewSection("Local cluster", o.localFlags),
		cli.NewSection("Linked clusters", o.linkedFlags),
		cli.NewSection("Flags of older versions, without effect", o.ignoredFlags),
		cli.NewSection("Preferences between clusters", o.preferenceFlags),
		cli.NewSection("Clusters out of service", o.standingFlags),
		cli.NewSection("Services for exports of linked clusters", o.exportFlags),
		cli.NewSection("Messages to proxies", o.messageFlags),
		cli.NewSection("Streams", o.streamFlags),
		cli.NewSection("Logs, metrics, traces", o.reportFlags),
	}
}

func (o *options) addressFlags(s *pflag.FlagSet) {
	parse(s, &o.addr, "addr", ":8086", hostPort,
		"Serve proxies over gRPC at `HOST:PORT`. The replica listens on this address once it is ready.")
	parse(s, &o.metricsAddr, "metrics-addr", ":9996", hostPort,
		"Serve admin requests over HTTP at `HOST:PORT`: /ping, /ready, /metrics, a web page at /, /debug/clusters, "+
			"/debug/services, /debug/streams, /debug/events, /debug/explain, /debug/impact, /debug/version and, "+
			"with --exports, /debug/exports.")
	parse(s, &o.hosts, "admin-hosts", "", admin.ParseHosts,
		"Let browsers also reach the admin pages at these comma-separated DNS `NAMES`, "+
			"such as gateway.example.com. "+
			"Browsers can always use IP addresses, localhost, names without a dot, "+
			"and names that end with the cluster domain, .svc or the namespace of the replica. "+
			"Requests for other names are rejected, because any website can make its own name resolve to the replica. "+
			"/metrics, /ping and /ready accept any host name.")
}

func (o *options) localFlags(s *pflag.FlagSet) {
	s.StringVar(&o.kubeconfig, "kubeconfig", "",
		"Use the kubeconfig `FILE` to connect to the local cluster. "+
			"By default, Isthmus uses $KUBECONFIG or, if the variable is not set, ~/.kube/config. "+
			"If the default file does not exist, Isthmus uses the Pod's ServiceAccount.")
	parse(s, &o.namespace, "controller-namespace", "linkerd", notEmpty("the namespace of Linkerd's control plane"),
		"Set the `NAMESPACE` of Linkerd's control plane. "+
			"Isthmus reads link Secrets from this namespace and assigns identities to the control plane Pods in it.")
	s.StringVar(&o.domain, "cluster-domain", "",
		"Set the DNS `DOMAIN` of the local cluster. If the flag is not set, "+
			"Isthmus uses cluster.local and logs a warning.")
	s.StringVar(&o.trustDomain, "identity-trust-domain", "",
		"Set the trust `DOMAIN` of identities in the local cluster. "+
			"If the flag is not set, Isthmus uses cluster.local and logs a warning.")
	s.BoolVar(&o.slices, "enable-endpoint-slices", true,
		"Read EndpointSlices instead of core Endpoints in all clusters. "+
			"One replica at a time also writes EndpointSlices for Services that select ExternalWorkloads.")
}

func (o *options) linkedFlags(s *pflag.FlagSet) {
	parse(s, &o.clusterMemory, "cluster-memory", "", quantity(minClusterMemory),
		"Limit the estimated memory of each linked cluster's cache to `QUANTITY`, such as 64Mi. "+
			"While Isthmus lists a cluster's resources, the cache may use twice this amount. "+
			"Isthmus serves stale data from the cache while a cluster exceeds the memory cap. "+
			"The local cluster has no memory cap. "+
			"The default is a quarter of the usable memory, but at least 4Mi and at most 256Mi. "+
			"The usable memory is the smaller of GOMEMLIMIT and the container's memory limit, "+
			"or the machine's memory if neither is set.")
	parse(s, &o.cacheMaxAge, "cache-max-age", "24h", notNegative,
		"Use the saved cache of a stale cluster until the cluster has been stale for this `DURATION`. "+
			"A replica saves a copy of the cache in ConfigMaps in the control plane's namespace. "+
			"Replicas that are started while the cluster's API is unreachable serve this copy. "+
			"If the duration is 0, Isthmus deletes existing copies and does not save new copies.")
}

// ignoredFlags defines flags that had an effect only in older versions.
func (o *options) ignoredFlags(s *pflag.FlagSet) {
	s.StringVar(&o.relist, "relist", "",
		"Deprecated: the `INTERVAL` is ignored, and a warning is logged. "+
			"Isthmus no longer lists resources periodically.")
	s.StringVar(&o.audit, "audit", "",
		"Deprecated: the `DURATION` is ignored, and a warning is logged. "+
			"Isthmus no longer lists resources periodically.")
}

func (o *options) messageFlags(s *pflag.FlagSet) {
	s.BoolVar(&o.ipv6, "enable-ipv6", true,
		"Send IPv6 addresses, and prefer a Pod's IPv6 address to its IPv4 address. Requires EndpointSlices.")
	s.BoolVar(&o.h2Upgrade, "enable-h2-upgrade", true,
		"Tell proxies that meshed Pods support HTTP/2, so that the proxies upgrade connections to HTTP/2.")
	s.StringVar(&o.transport, "outbound-transport-mode", "transparent",
		"Set the `MODE` for traffic to meshed Pods. "+
			"In transport-header mode, all traffic passes through the inbound port of the Pod's proxy. "+
			"In transparent mode, only traffic to opaque ports passes through the inbound port.")
	s.StringVar(&o.opaquePorts, "default-opaque-ports", "",
		"Disable protocol detection for these comma-separated `PORTS`, each a number or a range (LOW-HIGH). "+
			"An annotation on a Pod or Service overrides the list. Invalid items are skipped with a warning.")
	parse(s, &o.http2, "meshed-http2-client-params", "", o.parseHTTP2,
		"Set HTTP/2 parameters for connections to meshed Pods, as `JSON` like "+
			`{"keep_alive":{"interval":{"seconds":10}}}. Unknown keys are skipped with a warning.`)
	s.BoolVar(&o.zoneWeights, "ext-endpoint-zone-weights", false,
		"Give endpoints in the client's zone ten times the weight of other endpoints (experimental).")
	s.BoolVar(&o.targetCluster, "target-cluster-label", true,
		"Add target_cluster=NAME to the metric labels of endpoints in linked clusters.")
}

func (o *options) streamFlags(s *pflag.FlagSet) {
	parse(s, &o.pace, "pace", "50ms", notNegative,
		"Wait for `DURATION` after each message before sending the next change, "+
			"to combine many changes into fewer messages. "+
			"If the duration is 0, Isthmus does not wait.")
	parse(s, &o.stall, "stream-stall-timeout", "1m", duration(1, longest, "a duration above 0, such as 60s"),
		"End a stream if its proxy has not read pending messages for `DURATION`.")
	parse(s, &o.maxAge, "max-connection-age", "30m", parseAge,
		"When a connection is about `DURATION` old, move its streams to a new connection, one by one. "+
			"New connections can reach all replicas, including replicas that have started recently. "+
			"Proxies continue to use their endpoints in the meantime. "+
			"If the duration is 0, connections have no maximum age.")
	parse(s, &o.maxCalls, "max-concurrent-streams", "10000", number,
		"Allow at most `NUMBER` open calls per connection. Additional calls wait until another call ends. "+
			"A proxy opens one connection, with a few calls per destination. Few proxies need more than 100 calls. "+
			"Raise the limit if a meshed client, such as Prometheus, connects to more than 10,000 ports on Pods.")
	parse(s, &o.maxStreams, "max-streams", "", numberOrNone,
		"Allow at most `NUMBER` open calls across all connections. "+
			"Additional calls are rejected with ResourceExhausted. "+
			"Another eighth of the limit is reserved for client addresses "+
			"that have fewer open calls than the average client address. "+
			"The default is half of the usable memory (see --cluster-memory), divided by 14 KiB.")
	parse(s, &o.viewMemory, "view-memory", "", quantity(minViewMemory),
		"Use at most `QUANTITY` of memory, such as 512Mi, for the endpoint sets and profiles that proxies watch. "+
			"Isthmus estimates the memory. "+
			"Beyond the limit, calls for new destinations are rejected with ResourceExhausted. "+
			"Another eighth of the limit is reserved for client addresses "+
			"that use less memory than the average client address. "+
			"Open calls continue. "+
			"The default is a quarter of the usable memory (see --cluster-memory), but at most 2Gi.")
	parse(s, &o.delay, "shutdown-delay", "23s", notNegative,
		"After SIGTERM, become unready but continue to serve for `DURATION`, "+
			"so that proxies find other replicas through DNS. "+
			"The period of --drain follows. "+
			"--shutdown-delay and --drain together must be at least a second shorter than "+
			"the Pod's terminationGracePeriodSeconds. "+
			"The safest choice is a grace period of 60 s with --shutdown-delay=32s --drain=20s; see "+
			"docs/operations.md.")
	parse(s, &o.drain, "drain", "6s", notNegative,
		"End the open streams one by one over `DURATION` after --shutdown-delay, "+
			"so that the proxies do not all reconnect to other replicas at the same time. "+
			"Isthmus continues to serve proxies that reconnect. "+
			"After this time, Isthmus closes the listener and ends the remaining streams. "+
			"If the duration is 0, all streams end immediately. "+
			"The process exits at most a second after --shutdown-delay and --drain have passed. "+
			"The sum of --shutdown-delay and --drain must be at least one second less than "+
			"terminationGracePeriodSeconds (30 by default). "+
			"Outside of a Pod, Isthmus skips --shutdown-delay and --drain if no stream is open.")
	parse(s, new(uint32), "stream-queue-capacity", "100", number,
		"Accepted for compatibility with Linkerd's arguments. The `NUMBER` must be above 0. "+
			"The flag has no effect, because streams have no queues.")
}

func (o *options) reportFlags(s *pflag.FlagSet) {
	parse(s, &o.level, "log-level", "info", parseLevel,
		"Log messages at this `LEVEL` and above: "+logLevelNames+". "+
			"The levels debug and trace also apply to client libraries.")
	s.StringVar(&o.logFormat, "log-format", "plain", "Write the log in this `FORMAT`: plain or json.")
	s.StringVar(&o.traces, "trace-collector", "",
		"For every call, send a span to the OpenTelemetry collector at `HOST:PORT` (OTLP over gRPC, without TLS). "+
			"By default, Isthmus does not send traces.")
	s.BoolVar(&o.serviceMetrics, "service-metrics", false,
		"Export metrics for each member of each federated service, and for the endpoints that the member offers. "+
			"The number of series is proportional to the number of services times the number of clusters.")
	s.BoolVar(&o.pprof, "enable-pprof", false, "Serve /debug/pprof/ on the admin address.")
	s.BoolVar(&o.queueMetrics, "export-queue-metrics", true,
		"Export metrics (workqueue_*) for the work queue that writes EndpointSlices for ExternalWorkloads.")
	s.BoolVar(&o.isVersion, "version", false, "Print the version and exit.")
}

// The accept method validates the flags and replaces missing values with defaults. If the user
// requests the version, the method prints the version and returns true.
func (o *options) accept(p cli.Process) (done bool, err error) {
	switch {
	case o.isVersion:
		cli.WriteVersion(p.Stdout)
		return true, nil
	case o.ipv6 && !o.slices:
		return false, cli.Usagef("--enable-ipv6 needs EndpointSlices: " +
			"set --enable-ipv6=false or --enable-endpoint-slices=true")
	}
	o.complete()
	return false, nil
}

// complete replaces missing and unknown values with defaults, and adds a note about each
// replacement.
func (o *options) complete() {
	warn := func(format string, args ...any) {
		o.notes = append(o.notes, note{zap.WarnLevel, fmt.Sprintf(format, args...)})
	}
	const fallback = "cluster.local"
	if o.trustDomain == "" {
		warn("--identity-trust-domain is not set: using %s", fallback)
	}
	if o.relist != "" {
		warn("--relist no longer has any effect: remove it from the arguments")
	}
	if o.audit != "" {
		warn("--audit no longer has any effect: remove it from the arguments")
	}
	if o.domain == "" {
		warn("--cluster-domain is not set: using %s", fallback)
	}
	o.trustDomain = cmp.Or(o.trustDomain, fallback)
	o.domain = cmp.Or(o.domain, fallback)
	if o.transport != "transport-header" && o.transport != "transparent" {
		text := fmt.Sprintf("--outbound-transport-mode is %q, but the only valid modes are transparent and "+
			"transport-header: using transparent", o.transport)
		o.notes = append(o.notes, note{zap.ErrorLevel, text})
	}
	if o.logFormat != "plain" && o.logFormat != "json" {
		warn("--log-format is %q, but the only valid formats are plain and json: using plain", o.logFormat)
	}
}

// parseHTTP2 parses --meshed-http2-client-params. Unknown keys cause a warning rather than an
// error, so that Isthmus accepts the settings of newer Linkerd versions.
func (o *options) parseHTTP2(text string) (*pb.Http2ClientParams, error) {
	if text == "" {
		return nil, nil
	}
	var p pb.Http2ClientParams
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return nil, fmt.Errorf(`%w: use JSON like {"keep_alive":{"interval":{"seconds":10}}}`, err)
	}
	err := errors.Join(
		checkPositive("interval", p.GetKeepAlive().GetInterval()),
		checkPositive("timeout", p.GetKeepAlive().GetTimeout()),
	)
	if err != nil {
		return nil, err
	}
	strict := json.NewDecoder(strings.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&pb.Http2ClientParams{}); err != nil {
		text := fmt.Sprintf("--meshed-http2-client-params: %v: skipped", err)
		o.notes = append(o.notes, note{zap.WarnLevel, text})
	}
	return &p, nil
}

func checkPositive(name string, d *durationpb.Duration) error {
	if d != nil && (!d.IsValid() || d.AsDuration() <= 0) {
		return fmt.Errorf("keep_alive.%s is %ds %dns: use a duration above 0", name, d.GetSeconds(), d.GetNanos())
	}
	return nil
}

func (o *options) self(built adminapi.Build, ready func() bool) func() adminapi.Replica {
	name, _ := os.Hostname()
	return func() adminapi.Replica {
		return adminapi.Replica{
			Name:    name,
			Version: built.Version,
			Ready:   ready(),
			Domain:  o.domain,
			Format:  adminapi.Format,
		}
	}
}

func (o *options) server(log *zap.Logger, registry *prometheus.Registry) grpcapi.Options {
	return grpcapi.Options{
		ClusterDomain: o.domain,
		Messages: wire.Options{
			H2Upgrade:            o.h2Upgrade,
			ForceOpaqueTransport: o.transport == "transport-header",
			ZoneWeights:          o.zoneWeights,
			TargetClusterLabel:   o.targetCluster,
			MeshedHTTP2:          o.http2,
		},
		Pace:              noneIfZero(o.pace),
		Stall:             o.stall,
		Drain:             noneIfZero(o.drain),
		ConnectionAge:     noneIfZero(o.maxAge),
		ConcurrentStreams: o.maxCalls,
		Streams:           streamLimit(usableMemory(), o.maxStreams),
		ViewBytes:         viewLimit(usableMemory(), o.viewMemory),
		Log:               log,
		Registerer:        registry,
	}
}

// noneIfZero converts the value of a flag to an option of package grpcapi. A flag value of zero
// disables the limit. A negative option value disables the limit, and an option value of zero
// selects the default.
func noneIfZero(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// loopbackGateways is the name of an environment variable for tests. If
// ISTHMUS_TEST_LOOPBACK_GATEWAYS is "true", gateways on other networks may use loopback addresses.
const loopbackGateways = "ISTHMUS_TEST_LOOPBACK_GATEWAYS"

// rules returns the rules for decoding objects of all clusters.
func (o *options) rules(log *zap.Logger) cluster.Rules {
	return cluster.Rules{
		ControllerNamespace: o.namespace,
		DefaultOpaquePorts:  o.defaultPorts(log),
		EndpointSlices:      o.slices,
		LoopbackGateways:    os.Getenv(loopbackGateways) == "true",
	}
}

// defaultPorts parses --default-opaque-ports and logs a warning for each invalid item.
func (o *options) defaultPorts(log *zap.Logger) cluster.Ports {
	ports, err := cluster.ParsePorts(o.opaquePorts, nil)
	if err != nil {
		problems := []error{err}
		if list, ok := err.(interface{ Unwrap() []error }); ok {
			problems = list.Unwrap()
		}
		for _, p := range problems {
			log.Warn("--default-opaque-ports: " + p.Error() + ": skipped")
		}
	}
	return ports
}

// restConfig returns the client configuration for the local cluster from the kubeconfig at path. If
// path is empty, restConfig uses $KUBECONFIG or, if the variable is not set, ~/.kube/config. If the
// default file does not exist, restConfig uses the Pod's ServiceAccount.
func restConfig(path string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	loading := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{})
	cfg, err := loading.ClientConfig()
	switch {
	case err == nil:
	case path != "":
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	case errors.Is(err, clientcmd.ErrEmptyConfig) || clientcmd.IsEmptyConfig(err):
		return nil, errors.New("no cluster: the process is not in a Pod, and neither $KUBECONFIG nor ~/.kube/config " +
			"exists: set --kubeconfig=FILE")
	default:
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	cfg.QPS = -1 // no client-side limit: there are only a few watches and lists
	return cfg, nil
}
