package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"isthmus/cmd/isthmus/internal/cli"
)

// accepted has a value other than the default for every flag of the gateway.
var accepted = map[string]string{
	"addr":                       "127.0.0.1:1",
	"metrics-addr":               "127.0.0.1:2",
	"admin-hosts":                "gateway.example.com",
	"kubeconfig":                 "/k",
	"controller-namespace":       "l5d",
	"outbound-transport-mode":    "transport-header",
	"enable-h2-upgrade":          "false",
	"enable-endpoint-slices":     "false",
	"enable-ipv6":                "false",
	"identity-trust-domain":      "trust.example",
	"cluster-domain":             "cluster.example",
	"default-opaque-ports":       "25,100-200",
	"enable-pprof":               "true",
	"export-queue-metrics":       "false",
	"stream-queue-capacity":      "7",
	"trace-collector":            "collector:4317",
	"ext-endpoint-zone-weights":  "true",
	"meshed-http2-client-params": `{"keep_alive":{"while_idle":true}}`,
	"log-level":                  "debug",
	"log-format":                 "json",
	"version":                    "true",
	"target-cluster-label":       "false",
	"service-metrics":            "true",
	"pace":                       "1ms",
	"stream-stall-timeout":       "2s",
	"shutdown-delay":             "3s",
	"drain":                      "4s",
	"cluster-memory":             "64Mi",
	"max-connection-age":         "5s",
	"max-concurrent-streams":     "6",
	"view-memory":                "7Mi",
	"prefer":                     "zone, local, any",
	"min-ready":                  "50%",
	"return-after":               "8s",
	"return-over":                "9s",
	"cordon-local":               "last-resort",
	"region":                     "eu-1",
	"network":                    "dc-1",
	"when-lost":                  "withdraw",
	"lost-after":                 "1h0m0s",
	"audit":                      "10m",
	"relist":                     "10m",
	"exports":                    "plan",
	"export-sources":             "labels",
	"cluster-name":               "west",
	"export-namespaces":          "shop,team-*,!team-x",
	"unlinked-after":             "1h0m0s",
	"local-federated-selector":   "exported in (yes)",
	"local-excluded-labels":      "a,example.com/*",
	"local-excluded-annotations": "example.com/b",
	"multicluster-namespace":     "multicluster",
}

// TestAccepted: each flag with one dash and two, the value after "=" or, unless
// it is a boolean, a space.
func TestAccepted(t *testing.T) {
	names := map[string]string{} // with their defaults
	for _, section := range gatewayVerb(&options{}).Flags {
		section.Flags.VisitAll(func(f *pflag.Flag) { names[f.Name] = f.DefValue })
	}
	if got, want := slices.Sorted(maps.Keys(names)), slices.Sorted(maps.Keys(accepted)); !slices.Equal(got, want) {
		t.Fatalf("flags %v, want %v", got, want)
	}
	for name, value := range accepted {
		forms := [][]string{{"-" + name + "=" + value}, {"--" + name + "=" + value}}
		if value != "true" && value != "false" {
			forms = append(forms, []string{"-" + name, value}, []string{"--" + name, value})
		}
		for _, args := range forms {
			got := ""
			v := gatewayVerb(&options{})
			err := run(v, args, func(cli.Process) error {
				for _, section := range v.Flags {
					if f := section.Flags.Lookup(name); f != nil {
						got = f.Value.String()
					}
				}
				return nil
			})
			if err != nil || got != value || names[name] == value {
				t.Errorf("%v: %v, is %q, by default %q", args, err, got, names[name])
			}
		}
	}
}

// run runs a verb of that name with something else to do than it has.
func run(v cli.Verb, args []string, do func(cli.Process) error) (err error) {
	v.Run = func(_ context.Context, p cli.Process) error { err = do(p); return err }
	program := cli.Program{Name: "isthmus", Groups: []cli.Group{{Verbs: []cli.Verb{v}}}}
	var errs bytes.Buffer
	if code := program.Run(context.Background(), cli.Process{Args: append([]string{"gateway"}, args...), Stdout: io.Discard, Stderr: &errs}); code != 0 && err == nil {
		err = errors.New(errs.String())
	}
	return err
}

func parsed(t *testing.T, args ...string) *options {
	t.Helper()
	o := new(options)
	if err := run(gatewayVerb(o), args, func(p cli.Process) error { _, err := o.accept(p); return err }); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return o
}

func TestDefaults(t *testing.T) {
	o := parsed(t)
	type flat struct {
		addr, metricsAddr, namespace, trust, domain, level, format string
		slices, ipv6, h2, force, weights, label, pprof             bool
		pace, stall, delay, drain, age                             time.Duration
		calls                                                      uint
	}
	got := flat{o.addr, o.metricsAddr, o.namespace, o.trustDomain, o.domain, o.logLevel, o.logFormat,
		o.slices, o.ipv6, o.h2Upgrade, o.forceTransport, o.zoneWeights, o.targetCluster, o.pprof,
		o.pace, o.stall, o.delay, o.drain, o.maxAge, o.maxCalls}
	want := flat{":8086", ":9996", "linkerd", "cluster.local", "cluster.local", "info", "plain",
		true, true, true, false, false, true, false,
		50 * time.Millisecond, time.Minute, 23 * time.Second, 6 * time.Second, 30 * time.Minute, 10_000}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if o.http2Params != nil || o.opaquePorts != "" {
		t.Errorf("HTTP/2 parameters %v, opaque ports %q: want none", o.http2Params, o.opaquePorts)
	}
}

// TestNotes: values that are replaced or skipped.
func TestNotes(t *testing.T) {
	domains := []string{"--identity-trust-domain=t", "--cluster-domain=c"}
	for _, c := range []struct {
		args []string
		want []note
	}{
		{domains, nil},
		{nil, []note{{"--identity-trust-domain is not given: cluster.local is used", false}, {"--cluster-domain is not given: cluster.local is used", false}}},
		{append(domains, "--outbound-transport-mode=x"), []note{{`--outbound-transport-mode is "x": transparent is used; transport-header would be the other mode`, true}}},
		{append(domains, "--outbound-transport-mode=transport-header", "--log-format=json"), nil},
		{append(domains, "--audit=1h"), []note{{"--audit is without effect, since --relist has taken its place: remove it from the arguments", false}}},
		{append(domains, "--log-format=xml"), []note{{`--log-format is "xml": plain is used; json would be the other format`, false}}},
		{append(domains, `--meshed-http2-client-params={"keepAlive":{}}`), []note{{`--meshed-http2-client-params: json: unknown field "keepAlive": skipped`, false}}},
	} {
		if got := parsed(t, c.args...).notes; !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.args, got, c.want)
		}
	}
}

// TestRelistFlag: off, and durations that make sense.
func TestRelistFlag(t *testing.T) {
	for text, want := range map[string]time.Duration{"off": 0, "1h": time.Hour, "10s": 10 * time.Second, "168h": 168 * time.Hour} {
		if o := parsed(t, "--relist="+text); o.relist != want {
			t.Errorf("%s: %v", text, o.relist)
		}
	}
	for _, text := range []string{"", "on", "0", "0s", "9s", "169h", "-1h", "1"} {
		if _, err := parseRelist(text); err == nil || !strings.Contains(err.Error(), "--relist is ") {
			t.Errorf("%q is accepted: %v", text, err)
		}
	}
}

// TestChartArguments: those of a default install of Linkerd, as its chart
// writes them.
func TestChartArguments(t *testing.T) {
	o := parsed(t, "-addr=:8086", "-controller-namespace=linkerd", "-outbound-transport-mode=transport-header",
		"-enable-h2-upgrade=true", "-log-level=info", "-log-format=plain", "-enable-endpoint-slices=true",
		"-cluster-domain=cluster.local", "-identity-trust-domain=cluster.local",
		"-default-opaque-ports=25,587,3306,4444,5432,6379,9300,11211", "-enable-ipv6=false", "-enable-pprof=false",
		`--meshed-http2-client-params={"keep_alive":{"interval":{"seconds":10},"timeout":{"seconds":3},"while_idle":true}}`)
	want := &pb.Http2ClientParams{KeepAlive: &pb.Http2ClientParams_KeepAlive{
		Interval: durationpb.New(10 * time.Second), Timeout: durationpb.New(3 * time.Second), WhileIdle: true}}
	if !proto.Equal(o.http2Params, want) {
		t.Errorf("HTTP/2 parameters %v, want %v", o.http2Params, want)
	}
	if len(o.notes) > 0 || !o.forceTransport || o.ipv6 {
		t.Errorf("notes %v, transport forced %t, IPv6 %t", o.notes, o.forceTransport, o.ipv6)
	}
}
