package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/federation"
	"isthmus/local/exports/plan"
)

// linkerdFlags are the flags of Linkerd's destination controller.
var linkerdFlags = []string{
	"addr", "metrics-addr", "kubeconfig", "controller-namespace", "outbound-transport-mode", "enable-h2-upgrade",
	"enable-endpoint-slices", "enable-ipv6",
	"identity-trust-domain", "cluster-domain", "default-opaque-ports", "enable-pprof", "export-queue-metrics",
	"stream-queue-capacity", "trace-collector",
	"ext-endpoint-zone-weights", "meshed-http2-client-params", "log-level", "log-format", "version",
}

// TestAccepted checks that all flags of Linkerd's destination controller exist. Each flag is
// accepted with one dash and two, and its value after "=" or a space. A boolean takes its value
// after "=" only.
func TestAccepted(t *testing.T) {
	var names []string
	for _, section := range command(&options{}).Flags {
		section.Flags.VisitAll(func(f *pflag.Flag) {
			names = append(names, f.Name)
			forms := [][]string{{"-" + f.Name + "=" + f.DefValue}, {"--" + f.Name + "=" + f.DefValue}}
			if f.Value.Type() != "bool" {
				forms = append(forms, []string{"-" + f.Name, f.DefValue}, []string{"--" + f.Name, f.DefValue})
			}
			for _, args := range forms {
				got, v := "", command(&options{})
				err := runInstead(v, args, func(cli.Process) error {
					for _, section := range v.Flags {
						if f := section.Flags.Lookup(f.Name); f != nil {
							got = f.Value.String()
						}
					}
					return nil
				})
				if err != nil || got != f.DefValue {
					t.Errorf("%q: %v, is %q", args, err, got)
				}
			}
		})
	}
	for _, name := range linkerdFlags {
		if !slices.Contains(names, name) {
			t.Errorf("the flag %s does not exist", name)
		}
	}
}

// runInstead runs a command with do in place of its function.
func runInstead(v cli.Command, args []string, do func(cli.Process) error) (err error) {
	v.Run = func(_ context.Context, p cli.Process) error { err = do(p); return err }
	program := cli.Program{Name: "isthmus", Groups: []cli.Group{{Commands: []cli.Command{v}}}}
	var errs bytes.Buffer
	if code := program.Run(context.Background(), cli.Process{
		Args:   append([]string{"gateway"}, args...),
		Stdout: io.Discard,
		Stderr: &errs,
	}); code != 0 &&
		err == nil {
		err = errors.New(errs.String())
	}
	return err
}

func flagsOf(t *testing.T, args ...string) *options {
	t.Helper()
	o := new(options)
	if err := runInstead(command(o), args, func(p cli.Process) error {
		_, err := o.accept(p)
		return err
	}); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return o
}

// TestDefaults checks the defaults that the docs and Linkerd's chart rely on.
func TestDefaults(t *testing.T) {
	want := map[string]string{
		"addr": ":8086", "metrics-addr": ":9996", "controller-namespace": "linkerd", "log-level": "info",
		"log-format":             "plain",
		"enable-endpoint-slices": "true", "enable-ipv6": "true", "enable-h2-upgrade": "true", "enable-pprof": "false",
		"pace": "50ms", "stream-stall-timeout": "1m", "shutdown-delay": "23s", "drain": "6s",
		"max-connection-age": "30m", "max-concurrent-streams": "10000",
	}
	for _, s := range command(new(options)).Flags {
		s.Flags.VisitAll(func(f *pflag.Flag) {
			if value, ok := want[f.Name]; ok && f.DefValue != value {
				t.Errorf("--%s is %s, want %s", f.Name, f.DefValue, value)
			}
			delete(want, f.Name)
		})
	}
	if len(want) > 0 {
		t.Errorf("missing flags: %v", want)
	}
}

// TestNotes checks the notes about values that are replaced or skipped.
func TestNotes(t *testing.T) {
	domains := []string{"--identity-trust-domain=t", "--cluster-domain=c"}
	for _, c := range []struct {
		args []string
		want []note
	}{
		{domains, nil},
		{
			nil,
			[]note{
				{zap.WarnLevel, "--identity-trust-domain is not set: using cluster.local"},
				{zap.WarnLevel, "--cluster-domain is not set: using cluster.local"},
			},
		},
		{
			append(domains, "--outbound-transport-mode=x"),
			[]note{
				{
					zap.ErrorLevel,
					`--outbound-transport-mode is "x", but the only valid modes are transparent and ` +
						`transport-header: using transparent`,
				},
			},
		},
		{append(domains, "--outbound-transport-mode=transport-header", "--log-format=json"), nil},
		{
			append(domains, "--audit=1h"),
			[]note{{zap.WarnLevel, "--audit no longer has any effect: remove it from the arguments"}},
		},
		{
			append(domains, "--relist=off"),
			[]note{{zap.WarnLevel, "--relist no longer has any effect: remove it from the arguments"}},
		},
		{
			append(domains, "--log-format=xml"),
			[]note{{
				zap.WarnLevel, `--log-format is "xml", but the only valid formats are plain and json: using plain`,
			}},
		},
		{
			append(domains, `--meshed-http2-client-params={"keepAlive":{}}`),
			[]note{{zap.WarnLevel, `--meshed-http2-client-params: json: unknown field "keepAlive": skipped`}},
		},
	} {
		if got := flagsOf(t, c.args...).notes; !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.args, got, c.want)
		}
	}
}

// TestPreferenceFlags checks that the four flags define one preference. The test also checks the
// values of the flag for standings.
//
// Behaviours: PR-30, CS-16, CS-17.
func TestPreferenceFlags(t *testing.T) {
	o := flagsOf(
		t,
		"--prefer=zone, east+north",
		"--min-ready=50%",
		"--return-after=0s",
		"--return-over=2m",
		"--cordon-local=last-resort",
		"--when-lost=withdraw",
	)
	p := o.preference
	if p.String() != "zone, east+north" || p.MinReady.String() != "50%" || p.ReturnAfter != 0 ||
		p.ReturnOver != 2*time.Minute {
		t.Errorf("preference %+v", p)
	}
	other := flagsOf(t, "--cordon-local=true", "--when-lost=last-resort")
	if o.cordon != federation.LastResort || o.whenLost != federation.Withdrawn ||
		other.cordon != federation.Withdrawn || other.whenLost != federation.LastResort {
		t.Errorf("%+v, %+v", o.preferenceOptions, other.preferenceOptions)
	}
}

// TestExportFlags checks the effect of the flags for exports.
func TestExportFlags(t *testing.T) {
	kept := func(o *options) *exporter { return &exporter{options: o} }
	if o := flagsOf(t); !o.sources.labels || !kept(o).catalogOptions().ServiceExports ||
		(*exporter)(nil).storeOptions() != nil {
		t.Errorf("defaults: %+v", o.exportOptions)
	}
	o := flagsOf(
		t,
		"--export-sources=labels",
		"--local-federated-selector=a=b",
		"--local-excluded-labels=x, example.com/*",
		"--local-excluded-annotations=y",
	)
	if kept(o).catalogOptions().ServiceExports || flagsOf(t, "--export-sources=serviceexports").sources.labels {
		t.Error("a disabled source is read")
	}
	own := kept(o).catalogOptions().Selectors("")
	if own.Mirror != nil || !own.Federated(map[string]string{"a": "b"}) ||
		own.Federated(map[string]string{"mirror.linkerd.io/federated": "member"}) {
		t.Error("the selectors of the local cluster are wrong")
	}
	for key, excluded := range map[string]bool{
		"x":              true,
		"xy":             false,
		"example.com/a":  true,
		"example.comx/a": false,
		"y":              false,
	} {
		if own.ExcludedLabels(key) != excluded || own.ExcludedAnnotations(key) != (key == "y") {
			t.Errorf("%s excluded: label %v", key, !excluded)
		}
	}
	if o.maxPerNamespace != plan.DefaultPerNamespace || o.maxPerLink != plan.DefaultPerLink {
		t.Errorf("default limits: %d per namespace, %d per link", o.maxPerNamespace, o.maxPerLink)
	}
	o = flagsOf(t, "--max-exports-per-namespace=1", "--max-exports-per-link=5000")
	if o.maxPerNamespace != 1 || o.maxPerLink != plan.MaxObjects {
		t.Errorf("limits: %d per namespace, %d per link", o.maxPerNamespace, o.maxPerLink)
	}
	if kept(flagsOf(t, "--local-federated-selector=")).catalogOptions().Selectors("").Federated != nil {
		t.Error("an empty selector matches a Service")
	}
}

// TestChartArguments checks the arguments that Linkerd's chart writes for a default install.
func TestChartArguments(t *testing.T) {
	o := flagsOf(
		t,
		"-addr=:8086",
		"-controller-namespace=linkerd",
		"-outbound-transport-mode=transport-header",
		"-enable-h2-upgrade=true",
		"-log-level=info",
		"-log-format=plain",
		"-enable-endpoint-slices=true",
		"-cluster-domain=cluster.local",
		"-identity-trust-domain=cluster.local",
		"-default-opaque-ports=25,587,3306,4444,5432,6379,9300,11211",
		"-enable-ipv6=false",
		"-enable-pprof=false",
		`--meshed-http2-client-params={"keep_alive":{"interval":{"seconds":10},"timeout":{"seconds":3},`+
			`"while_idle":true}}`,
	)
	want := &pb.Http2ClientParams{KeepAlive: &pb.Http2ClientParams_KeepAlive{
		Interval: durationpb.New(10 * time.Second), Timeout: durationpb.New(3 * time.Second), WhileIdle: true}}
	if !proto.Equal(o.http2, want) || len(o.notes) > 0 || o.transport != "transport-header" || o.ipv6 {
		t.Errorf("HTTP/2 parameters %v, notes %v, transport %s, IPv6 %t", o.http2, o.notes, o.transport, o.ipv6)
	}
}

func TestParseMemory(t *testing.T) {
	for text, want := range map[string]int64{"": 0, "64Mi": 64 << 20, "1G": 1e9, "16777216": 16 << 20} {
		if got, err := quantity(minClusterMemory)(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"x", "64MB", "-64Mi", "0", "3Mi"} {
		if _, err := quantity(minClusterMemory)(text); err == nil || !strings.Contains(err.Error(), "use ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
