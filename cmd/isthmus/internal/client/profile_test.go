package client

import (
	"bytes"
	"strings"
	"testing"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
)

// message reads a DestinationProfile.
func message(t *testing.T, text string) *pb.DestinationProfile {
	t.Helper()
	m := &pb.DestinationProfile{}
	if err := prototext.Unmarshal([]byte(text), m); err != nil {
		t.Fatal(err)
	}
	return m
}

const (
	budgetText  = `retry_budget{retry_ratio:0.2 min_retries_per_second:10 ttl{seconds:10}} `
	serviceText = budgetText + `fully_qualified_name:"web.shop.svc.cluster.local" parent_ref{resource{group:"core" kind:"Service" name:"web" namespace:"shop" port:80}} `
	profileText = serviceText + `opaque_protocol:true profile_ref{resource{group:"linkerd.io" kind:"ServiceProfile" name:"web.shop.svc.cluster.local" namespace:"client"}}
		routes{condition{all{matches{method{registered:GET}} matches{not{any{matches{path{regex:"/a\t.*"}} matches{method{unregistered:"PURGE"}}}}}}}
			metrics_labels{key:"route" value:"GET /books"} is_retryable:true timeout{nanos:250000000}
			response_classes{condition{status{min:500 max:599}} is_failure:true} response_classes{condition{all{matches{status{min:200}} matches{not{status{min:204 max:204}}}}}}}
		routes{condition{all{}} metrics_labels{key:"route" value:"a\tb"}}
		routes{}
		dst_overrides{authority:"web-a.shop:80" weight:9000} dst_overrides{authority:"web-b.shop:80" weight:1000}`
	endpointText = budgetText + `endpoint{addr{ip{ipv4:167772161} port:80} weight:10000 metric_labels{key:"pod" value:"web-1"} metric_labels{key:"namespace" value:"shop"}
		tls_identity{dns_like_identity{name:"web.id"} server_name{name:"web.id"}} protocol_hint{h2{} opaque_transport{inbound_port:4143}}}`
)

func TestProfileTable(t *testing.T) {
	for _, tc := range []struct {
		name, message string
		want          []string // lines, with single spaces
	}{
		{"service", serviceText, []string{
			"12:00:00.000 web:80: service web.shop.svc.cluster.local", "opaque no", "retries 20% of the requests of the last 10s, and 10 a second",
			"service shop/web port 80", "profile none",
		}},
		{"routes", profileText, []string{
			"12:00:00.000 web:80: service web.shop.svc.cluster.local", "opaque yes", "retries 20% of the requests of the last 10s, and 10 a second",
			"service shop/web port 80", "profile client/web.shop.svc.cluster.local",
			"overrides web-a.shop:80 weight 9000", "overrides web-b.shop:80 weight 1000",
			"ROUTE RETRY TIMEOUT CONDITION RESPONSES",
			`GET /books yes 250ms (method GET and not (path "/a\t.*" or method "PURGE")) status 500-599 fails, (status from 200 and not status 204) succeeds`,
			`"a\tb" no - every request -`, `- no - ? -`,
		}},
		{"endpoint", endpointText, []string{
			"12:00:00.000 web:80: endpoint 10.0.0.1:80", "opaque no", "retries 20% of the requests of the last 10s, and 10 a second",
			"endpoint 10.0.0.1:80 weight 10000", "labels namespace=shop pod=web-1", "identity web.id", "hints h2,via:4143",
		}},
		{"unknown endpoint", `endpoint{addr{ip{ipv4:167772161} port:80} weight:1} opaque_protocol:true`, []string{
			"12:00:00.000 web:80: endpoint 10.0.0.1:80", "opaque yes", "retries -", "endpoint 10.0.0.1:80 weight 1", "labels -", "identity -", "hints -",
		}},
		{"authority override", `endpoint{addr{ip{ipv4:167772161} port:80} authority_override{authority_override:"web.east:80"}}`, []string{
			"12:00:00.000 web:80: endpoint 10.0.0.1:80", "opaque no", "retries -", "endpoint 10.0.0.1:80 weight 0", "labels -", "identity -", "hints authority:web.east:80",
		}},
		{"nothing", ``, []string{"12:00:00.000 web:80: no profile"}},
		{"no name", budgetText, []string{"12:00:00.000 web:80: profile", "opaque no", "retries 20% of the requests of the last 10s, and 10 a second", "service none", "profile none"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var p profile
			if err := p.apply(message(t, tc.message)); err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := (&screen{w: &b, authority: "web:80"}).show(&p, noon); err != nil {
				t.Fatal(err)
			}
			var got []string
			for line := range strings.Lines(b.String()) {
				got = append(got, strings.Join(strings.Fields(line), " "))
			}
			if strings.Join(got, "\n") != strings.Join(tc.want, "\n") {
				t.Errorf("got:\n%s\nwant:\n%s", b.String(), strings.Join(tc.want, "\n"))
			}
		})
	}
}

// TestHarmlessTables: whatever a server sends, nothing reaches the terminal that
// it would obey.
func TestHarmlessTables(t *testing.T) {
	const escape = `\033]0;\302\233\n` // of both kinds, and a line break
	const endpoint = `addr{ip{ipv4:167772161} port:80} metric_labels{key:"pod" value:"` + escape + `"} metric_labels{key:"` + escape + `"} metric_labels{key:"zone" value:"` + escape + `"}
			metric_labels{key:"target_cluster" value:"` + escape + `"} authority_override{authority_override:"` + escape + `"} tls_identity{uri_like_identity{uri:"` + escape + `"}}`
	set := &pb.WeightedAddrSet{}
	if err := prototext.Unmarshal([]byte(`addrs{`+endpoint+`}`), set); err != nil {
		t.Fatal(err)
	}
	var s getState
	if err := s.apply(&pb.Update{Update: &pb.Update_Add{Add: set}}); err != nil {
		t.Fatal(err)
	}
	contents := []content{&s}
	for _, text := range []string{
		`endpoint{` + endpoint + `}`,
		strings.NewReplacer("web", escape, "shop", escape, "/books", escape, "PURGE", escape).Replace(profileText),
	} {
		var p profile
		if err := p.apply(message(t, text)); err != nil {
			t.Fatal(err)
		}
		contents = append(contents, &p)
	}
	for _, c := range contents {
		checkHarmless(t, c)
	}
	end := codeMeanings{}.explainEnd(replica{name: "a:1"}, status.Error(codes.Internal, "\x1b]0;")).Error()
	if strings.Contains(end, "\x1b") || !strings.Contains(end, `\x1b]0;`) {
		t.Errorf("%q", end)
	}
}

func TestProfileJSON(t *testing.T) {
	const head = `{"time":"2026-09-01T12:00:00Z","authority":"web:80",`
	const retries = `"retryBudget":{"ratio":0.2,"minPerSecond":10,"ttl":"10s"}`
	for text, want := range map[string]string{
		``:          `"opaque":false}`,
		serviceText: `"name":"web.shop.svc.cluster.local","opaque":false,` + retries + `,"service":{"name":"web","namespace":"shop","port":80}}`,
		profileText: `"name":"web.shop.svc.cluster.local","opaque":true,"routes":[` +
			`{"name":"GET /books","condition":"(method GET and not (path \"/a\\t.*\" or method \"PURGE\"))","responses":[{"condition":"status 500-599","failure":true},` +
			`{"condition":"(status from 200 and not status 204)","failure":false}],"retryable":true,"timeout":"250ms"},` +
			`{"name":"a\tb","condition":"every request","retryable":false},{"name":"","condition":"?","retryable":false}],` + retries +
			`,"overrides":[{"authority":"web-a.shop:80","weight":9000},{"authority":"web-b.shop:80","weight":1000}],` +
			`"service":{"name":"web","namespace":"shop","port":80},"profile":{"name":"web.shop.svc.cluster.local","namespace":"client"}}`,
		endpointText: `"opaque":false,` + retries + `,"endpoint":{"address":"10.0.0.1:80","weight":10000,"labels":{"namespace":"shop","pod":"web-1"},` +
			`"identity":{"dns":"web.id","serverName":"web.id"},"protocol":"h2","inboundPort":4143}}`,
	} {
		var p profile
		if err := p.apply(message(t, text)); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := (&screen{w: &b, authority: "web:80", asJSON: true}).show(&p, noon); err != nil {
			t.Fatal(err)
		}
		if b.String() != head+want+"\n" {
			t.Errorf("got  %swant %s%s", b.String(), head, want)
		}
	}
}

// TestConditions: those that the tables above lack.
func TestConditions(t *testing.T) {
	for text, want := range map[string]string{
		`all{matches{path{regex:"/"}}}`: `path "/"`, `any{}`: "no request", `any{matches{all{}} matches{any{}}}`: "(every request or no request)",
		`method{registered:DELETE}`: "method DELETE", `not{}`: "not ?",
	} {
		m := &pb.RequestMatch{}
		if err := prototext.Unmarshal([]byte(text), m); err != nil {
			t.Fatal(err)
		}
		if got := requestCondition(m); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		`all{}`: "every response", `any{}`: "no response", `status{}`: "status any", `status{max:299}`: "status up to 299",
		`any{matches{status{min:200 max:200}} matches{status{min:500}}}`: "(status 200 or status from 500)", ``: "?",
	} {
		m := &pb.ResponseMatch{}
		if err := prototext.Unmarshal([]byte(text), m); err != nil {
			t.Fatal(err)
		}
		if got := responseCondition(m); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestProfileOnce(t *testing.T) {
	f, addr := startFake(t)
	go func() {
		if q := <-f.asked; q.GetPath() != "10.0.0.1:80" || q.GetContextToken() != `{"ns":"client"}` {
			t.Errorf("asked for %v", q)
		}
		f.profiles <- message(t, `endpoint{addr{port:80}}`)
	}()
	code, out, err := call("profile", "--token", `{"ns":"client"}`, "10.0.0.1:80", "--once", "-o", "json", "--addr", addr)
	if code != 0 || err != "isthmus profile: the server sent an address without IP\n" || strings.Count(out, "\n") != 1 || !strings.Contains(out, `"opaque":false`) {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, out, err)
	}
}

// TestProfileEnds: why a stream has ended is printed, with what its status means for this RPC.
func TestProfileEnds(t *testing.T) {
	for code, want := range map[codes.Code]string{
		codes.NotFound:           "isthmus profile: NotFound: m\n  There is no such Service in the gateway's cluster, or none of its endpoints",
		codes.InvalidArgument:    "it is neither an IP address nor a service name",
		codes.FailedPrecondition: "Several objects claim this address",
		codes.Unavailable:        "or the gateway is shutting down or ends connections of this age (--max-connection-age). A proxy asks again",
		codes.Internal:           "Internal: m\n  A proxy asks again",
	} {
		t.Run(code.String(), func(t *testing.T) {
			f, addr := startFake(t)
			f.end = status.Error(code, "m")
			close(f.profiles)
			exit, out, err := call("profile", "web:80", "--addr="+addr)
			if exit != 1 || out != "" || !strings.Contains(err, want) {
				t.Errorf("exit code %d, stdout %q, stderr %q", exit, out, err)
			}
		})
	}
}
