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

// command returns the command "isthmus gateway". The flags set fields of o.
func command(o *options) cli.Command {
	return cli.Command{
		Use:        "gateway",
		Aliases:    []string{"destination"}, // as in a Linkerd install
		Summary:    "serve Linkerd's Destination API over this and all linked clusters",
		Intro:      intro,
		Ending:     ending,
		Flags:      o.sections(),
		Run:        func(ctx context.Context, p cli.Process) error { return run(ctx, p, o) },
		OwnSignals: true,
	}
}

const intro = `isthmus gateway serves Linkerd's Destination API: it watches the cluster it runs
in and every cluster that a link Secret names, merges the endpoints of each
service across them, and streams the result to proxies.

Usage: isthmus gateway [FLAGS]      (alias: isthmus destination)

Flags take one dash or two, and their value after "=" or a space; booleans take
it after "=" only.`

const ending = `Examples:
  As the charts of Linkerd run it, within a cluster:
    isthmus gateway --controller-namespace linkerd --cluster-domain cluster.local \
      --identity-trust-domain cluster.local --enable-ipv6=false \
      --outbound-transport-mode transport-header \
      --default-opaque-ports 25,587,3306,4444,5432,6379,9300,11211
  On your machine, against a cluster of your kubeconfig, to look around:
    isthmus gateway --kubeconfig ~/.kube/config --addr 127.0.0.1:8086 \
      --metrics-addr 127.0.0.1:9996 --log-level debug
    curl -s 127.0.0.1:9996/debug/clusters
    isthmus get web.shop.svc.cluster.local:80 --addr 127.0.0.1:8086

SIGTERM or SIGINT ends it gently, a second one at once.

In a container with a memory limit, GOMEMLIMIT is 90 % of that unless set: rather
than be killed, the gateway then collects garbage more often. GOGC follows what is
in use unless set: 200 with little in use, 15 with much.`

// options are the values of the command's flags.
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

// note is a remark on the flags that does not prevent the start.
type note struct {
	level zapcore.Level
	text  string
}

// sections returns all flags, by section of the help.
func (o *options) sections() []cli.Section {
	return []cli.Section{
		cli.NewSection("Addresses", o.addressFlags),
		cli.NewSection("The cluster the gateway runs in", o.localFlags),
		cli.NewSection("Linked clusters", o.linkedFlags),
		cli.NewSection("For arguments of older versions", o.ignoredFlags),
		cli.NewSection("Which clusters clients use", o.preferenceFlags),
		cli.NewSection("Clusters that are taken out", o.standingFlags),
		cli.NewSection("Services for what linked clusters export", o.exportFlags),
		cli.NewSection("What proxies are sent", o.messageFlags),
		cli.NewSection("Streams", o.streamFlags),
		cli.NewSection("Logs, metrics, traces", o.reportFlags),
	}
}

// addressFlags defines the flags for addresses.
func (o *options) addressFlags(s *pflag.FlagSet) {
	parse(s, &o.addr, "addr", ":8086", hostPort,
		"`HOST:PORT` of the gRPC server for proxies. It is listened on once the gateway is ready.")
	parse(s, &o.metricsAddr, "metrics-addr", ":9996", hostPort,
		"`HOST:PORT` of the admin HTTP server: /ping, /ready, /metrics, a page for people at /, /debug/clusters, "+
			"/debug/services, /debug/streams, /debug/events, /debug/explain, /debug/impact, /debug/version and, "+
			"with --exports, /debug/exports.")
	parse(s, &o.hosts, "admin-hosts", "", admin.ParseHosts,
		"`NAMES`, divided by commas, by which browsers may reach the admin server's pages too, "+
			"such as gateway.example.com. Without it they may by IP addresses, localhost, names without a dot, "+
			"and names below the cluster domain, .svc and the gateway's namespace. "+
			"Others are refused, since a site can make its own name resolve to the gateway. "+
			"/metrics, /ping and /ready are answered by any name.")
}

// localFlags defines the flags for the local cluster.
func (o *options) localFlags(s *pflag.FlagSet) {
	s.StringVar(&o.kubeconfig, "kubeconfig", "",
		"Kubeconfig `FILE` to reach the cluster with. Without it: $KUBECONFIG, ~/.kube/config, "+
			"or the Pod's ServiceAccount.")
	parse(s, &o.namespace, "controller-namespace", "linkerd", notEmpty("the namespace of Linkerd's control plane"),
		"`NAMESPACE` of Linkerd's control plane: link Secrets are read there, "+
			"and Pods of that control plane get an identity.")
	s.StringVar(&o.domain, "cluster-domain", "", "DNS `DOMAIN` of the cluster. Empty: cluster.local, with a warning.")
	s.StringVar(&o.trustDomain, "identity-trust-domain", "",
		"Trust `DOMAIN` of the cluster's identities. Empty: cluster.local, with a warning.")
	s.BoolVar(&o.slices, "enable-endpoint-slices", true,
		"Read EndpointSlices, in all clusters; otherwise core Endpoints. "+
			"Also write EndpointSlices for Services that select ExternalWorkloads, in turns with the other replicas.")
}

// linkedFlags defines the flags for linked clusters.
func (o *options) linkedFlags(s *pflag.FlagSet) {
	parse(s, &o.clusterMemory, "cluster-memory", "", quantity(minClusterMemory),
		"`QUANTITY` of memory, such as 64Mi, that the cache of one linked cluster may take, by estimate. "+
			"A list that is being read may take as much again beside it. "+
			"A cluster beyond the cap keeps what it had, and is stale until it is small again. "+
			"The gateway's own cluster has no such cap. "+
			"Empty: a quarter of what the process may use (the container's memory limit, "+
			"less if GOMEMLIMIT is less, or without one the machine's memory), at most 256Mi.")
}

// ignoredFlags defines flags of older versions that have no effect.
func (o *options) ignoredFlags(s *pflag.FlagSet) {
	s.StringVar(&o.relist, "relist", "",
		"`INTERVAL`; ignored with a warning: Isthmus no longer lists resources beside their watches.")
	s.StringVar(&o.audit, "audit", "",
		"`DURATION`; ignored with a warning: Isthmus no longer lists resources beside their watches.")
}

// messageFlags defines the flags for the content of messages to proxies.
func (o *options) messageFlags(s *pflag.FlagSet) {
	s.BoolVar(&o.ipv6, "enable-ipv6", true,
		"Send IPv6 addresses, and prefer a Pod's IPv6 address to its IPv4 one. Needs EndpointSlices.")
	s.BoolVar(&o.h2Upgrade, "enable-h2-upgrade", true, "Hint that meshed Pods take HTTP/2, so that proxies upgrade.")
	s.StringVar(&o.transport, "outbound-transport-mode", "transparent",
		"`MODE` transport-header sends traffic to every meshed Pod through its proxy's inbound port, "+
			"transparent does so for opaque ports only.")
	s.StringVar(&o.opaquePorts, "default-opaque-ports", "",
		"`PORTS` (a comma-separated list of numbers and LOW-HIGH ranges) whose protocol proxies do not detect, "+
			"unless an annotation of the Pod or Service replaces the list. Invalid items are warned about and skipped.")
	parse(s, &o.http2, "meshed-http2-client-params", "", o.parseHTTP2,
		"HTTP/2 parameters for connections to meshed Pods, as `JSON` like "+
			`{"keep_alive":{"interval":{"seconds":10}}}. Unknown keys are warned about and skipped.`)
	s.BoolVar(&o.zoneWeights, "ext-endpoint-zone-weights", false,
		"Experimental: endpoints in the client's zone get ten times the weight.")
	s.BoolVar(&o.targetCluster, "target-cluster-label", true,
		"Label the metrics of endpoints in linked clusters target_cluster=NAME.")
}

// streamFlags defines the flags for streams and their end.
func (o *options) streamFlags(s *pflag.FlagSet) {
	parse(s, &o.pace, "pace", "50ms", notNegative,
		"After a message, wait this `DURATION` before looking for the next change, "+
			"so that many changes become few messages. 0: do not wait.")
	parse(s, &o.stall, "stream-stall-timeout", "1m", duration(1, longest, "a duration above 0, such as 60s"),
		"End a stream whose proxy has taken nothing for this `DURATION` although there is something to send.")
	parse(s, &o.maxAge, "max-connection-age", "30m", parseAge,
		"Move the streams of a connection that is older than this `DURATION`, more or less, "+
			"to new connections one by one, so that a replica that has been restarted gets proxies again. "+
			"Proxies keep their endpoints meanwhile. 0: never.")
	parse(s, &o.maxCalls, "max-concurrent-streams", "10000", number,
		"A connection may have this `NUMBER` of open calls; more wait for one of them to end. "+
			"A proxy has one connection, and some calls for each destination that it uses: few have more than 100. "+
			"Raise it if a meshed client talks to more than 10,000 Pods and ports, as a Prometheus server may.")
	parse(s, &o.maxStreams, "max-streams", "", numberOrNone,
		"`NUMBER` of calls that may be open at a time, over all connections. Beyond it, further calls get "+
			"ResourceExhausted. A client address with fewer calls than the average address is still served, "+
			"up to an eighth more. "+
			"Empty: half of the memory that the process may use (see --cluster-memory), divided by 14 KiB.")
	parse(s, &o.viewMemory, "view-memory", "", quantity(minViewMemory),
		"`QUANTITY` of memory, such as 512Mi, that the sets and profiles that proxies ask for may take, "+
			"by estimate. Beyond it, calls that ask for something new get ResourceExhausted. "+
			"A client address that uses less than the average address is still served, "+
			"up to an eighth more. Open calls stay. "+
			"Empty: a quarter of what the process may use (see --cluster-memory), at most 2Gi.")
	parse(s, &o.delay, "shutdown-delay", "23s", notNegative,
		"On SIGTERM, go on serving, but not ready, for this `DURATION`, "+
			"so that proxies learn by DNS where other replicas are; --drain follows. "+
			"With --drain it must be at least a second less than the Pod's terminationGracePeriodSeconds. "+
			"The safest choice is a grace of 60 s with --shutdown-delay=32s --drain=20s; see docs/operations.md.")
	parse(s, &o.drain, "drain", "6s", notNegative,
		"After --shutdown-delay, end the streams that are open then, spread over this `DURATION`, "+
			"so that other replicas do not get all proxies at once. "+
			"Proxies that come back are served until then; "+
			"at the end of it the listener is closed and the streams that are left end. 0: all at once. "+
			"The process ends at most a second after the two: "+
			"keep their sum a second below terminationGracePeriodSeconds "+
			"(30, unless the Pod sets it). Outside of a Pod both are skipped while no stream is open.")
	parse(s, new(uint32), "stream-queue-capacity", "100", number,
		"A `NUMBER` above 0; without effect, since streams have no queues. For the arguments of a Linkerd install.")
}

// reportFlags defines the flags for logs, metrics and traces.
func (o *options) reportFlags(s *pflag.FlagSet) {
	parse(s, &o.level, "log-level", "info", parseLevel,
		"`LEVEL` of the log: "+logLevelNames+". With debug and trace, client libraries log more too.")
	s.StringVar(&o.logFormat, "log-format", "plain", "`FORMAT` of the log: plain or json.")
	s.StringVar(&o.traces, "trace-collector", "",
		"`HOST:PORT` of an OpenTelemetry collector, which gets a span for every call (OTLP over gRPC, no TLS). "+
			"Empty: no traces.")
	s.BoolVar(&o.serviceMetrics, "service-metrics", false,
		"Export the members of every federated service, and what each offers, as series of their own: "+
			"some for each service and cluster.")
	s.BoolVar(&o.pprof, "enable-pprof", false, "Serve /debug/pprof/ at the admin address.")
	s.BoolVar(&o.queueMetrics, "export-queue-metrics", true,
		"Export the work queue metrics (workqueue_*) of the writer of EndpointSlices for ExternalWorkloads.")
	s.BoolVar(&o.isVersion, "version", false, "Print the version and exit.")
}

// accept validates the parsed flags and completes them. If the flags request the version, accept
// prints the version and returns true.
func (o *options) accept(p cli.Process) (done bool, err error) {
	switch {
	case o.isVersion:
		cli.WriteVersion(p.Stdout)
		return true, nil
	case o.ipv6 && !o.slices:
		return false, cli.Usagef("--enable-ipv6 needs EndpointSlices: " +
			"give --enable-ipv6=false or --enable-endpoint-slices=true")
	}
	o.complete()
	return false, nil
}

// complete replaces missing and unknown values by defaults, and adds a note for each.
func (o *options) complete() {
	warn := func(format string, args ...any) {
		o.notes = append(o.notes, note{zap.WarnLevel, fmt.Sprintf(format, args...)})
	}
	const fallback = "cluster.local"
	if o.trustDomain == "" {
		warn("--identity-trust-domain is not given: %s is used", fallback)
	}
	if o.relist != "" {
		warn("--relist has no effect any more: remove it from the arguments")
	}
	if o.audit != "" {
		warn("--audit has no effect any more: remove it from the arguments")
	}
	if o.domain == "" {
		warn("--cluster-domain is not given: %s is used", fallback)
	}
	o.trustDomain = cmp.Or(o.trustDomain, fallback)
	o.domain = cmp.Or(o.domain, fallback)
	if o.transport != "transport-header" && o.transport != "transparent" {
		text := fmt.Sprintf("--outbound-transport-mode is %q: transparent is used; "+
			"transport-header would be the other mode", o.transport)
		o.notes = append(o.notes, note{zap.ErrorLevel, text})
	}
	if o.logFormat != "plain" && o.logFormat != "json" {
		warn("--log-format is %q: plain is used; json would be the other format", o.logFormat)
	}
}

// parseHTTP2 parses --meshed-http2-client-params. Unknown keys are not an error, so that a Linkerd
// install works even if it uses a newer setting.
func (o *options) parseHTTP2(text string) (*pb.Http2ClientParams, error) {
	if text == "" {
		return nil, nil
	}
	var p pb.Http2ClientParams
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return nil, fmt.Errorf(`%w: give JSON like {"keep_alive":{"interval":{"seconds":10}}}`, err)
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

// checkPositive returns an error if d is set and is not a positive duration.
func checkPositive(name string, d *durationpb.Duration) error {
	if d != nil && (!d.IsValid() || d.AsDuration() <= 0) {
		return fmt.Errorf("keep_alive.%s is %ds %dns: give a duration above 0", name, d.GetSeconds(), d.GetNanos())
	}
	return nil
}

// self returns a function that describes this replica for the debug API.
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

// server returns the options of the Destination server.
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

// noneIfZero converts a duration from a flag to an option. In a flag, zero means none. In an
// option, zero means the default and a negative value means none.
func noneIfZero(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// loopbackGateways is an environment variable for tests. If it is "true", gateways of other
// networks may have loopback addresses.
const loopbackGateways = "ISTHMUS_TEST_LOOPBACK_GATEWAYS"

// rules returns the rules for reading all clusters.
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

// restConfig returns the client configuration for the local cluster. If path is empty, it uses
// $KUBECONFIG, ~/.kube/config or the Pod's ServiceAccount.
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
		return nil, errors.New("no cluster to run in: this is not a Pod, " +
			"and there is neither $KUBECONFIG nor ~/.kube/config; name a file by --kubeconfig")
	default:
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	cfg.QPS = -1 // no client-side limit: there are only a few watches and lists
	return cfg, nil
}
