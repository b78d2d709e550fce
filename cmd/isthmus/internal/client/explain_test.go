package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"isthmus/internal/adminapi"
	"isthmus/internal/legible"
)

var explainJSON = `{
  "authority": "web.shop.svc.cluster.local:80", "client": {"namespace": "shop", "node": "n1", "zone": "a", "instance": "i"}, "defined": true, "federated": true, "imported": true,
  "problems": ["isthmus.io/min-ready is odd"],
  "set": {"version": 3, "endpoints": 2, "complete": false, "changed": ` + before(time.Minute) + `, "origin": "east"},
  "preference": {"prefer": "local, any", "minReady": "50%", "returnAfter": "30s", "returnOver": "0s"},
  "tiers": {"port": 80, "zone": "a", "tiers": [{"tier": "local", "inUse": true, "ready": 2, "sent": 2}], "since": ` + before(time.Hour) + `, "why": "first"},
  "members": [
    {"cluster": "local", "service": "shop/web", "state": "ready", "since": ` + before(time.Hour) + `, "standing": "in-service", "nodeLocal": true, "ports": [8080], "changed": ` + before(time.Minute) + `, "updates": 2},
    {"cluster": "east", "service": "shop/api", "state": "stale", "standing": "withdrawn", "standingReason": "cordoned", "ports": [80, 81], "updates": 0},
    {"cluster": "north", "service": "shop/web", "state": "unreachable", "since": ` + before(time.Hour) + `, "reason": "cluster is unreachable: dial tcp: refused", "standing": "in-service", "ports": [], "updates": 0}],
  "verdicts": {"served": 2, "not-ready": 1, "hinted-to-other-zones": 1, "other-node": 1, "other-instance": 1, "of-tomorrow": 1},
  "addresses": [
    {"cluster": "local", "service": "shop/web", "slice": "shop/web-x", "address": "10.0.0.1:8080", "verdict": "served", "changed": ` + before(time.Minute) + `, "target": "Pod shop/web-1", "tier": "local", "zone": "a", "identity": "id"},
    {"cluster": "local", "service": "shop/web", "slice": "shop/web-x", "address": "10.0.0.2:8080", "verdict": "other-node", "node": "n2"},
    {"cluster": "local", "service": "shop/web", "slice": "shop/web-x", "address": "10.0.0.3:8080", "verdict": "other-instance"},
    {"cluster": "east", "service": "shop/api", "slice": "shop/api-y", "address": "10.1.0.1:80", "verdict": "served"},
    {"cluster": "east", "service": "shop/api", "slice": "shop/api-y", "address": "10.1.0.2:80", "verdict": "not-ready", "detail": "more"},
    {"cluster": "east", "service": "shop/api", "slice": "shop/api-y", "address": "10.1.0.3", "verdict": "hinted-to-other-zones", "hints": ["b", "c"]},
    {"cluster": "east", "service": "shop/api", "slice": "shop/api-y", "address": "\u001b[31m", "verdict": "of-tomorrow"}],
  "streams": [{"destination": "web.shop.svc.cluster.local:80", "zone": "a", "streams": 4, "version": 3, "endpoints": 2, "upToDate": 1, "waiting": 1, "slow": 2, "lastMessage": ` + before(time.Second) + `}],
  "moreStreamViews": 2}`

const explainTable = `12:00:00.000  ADMIN: web.shop.svc.cluster.local:80 (import): 2 of 7 addresses served
Client: namespace shop, node n1, zone a, asks for instance i
Problems of the Service:
  isthmus.io/min-ready is odd
web.shop.svc.cluster.local:80 prefers local, any (min-ready 50%, return-after 30s, return-over 0s):
  PORT  ZONE  INSTANCE  NODE  IN USE  AVAILABLE  SINCE  WHY    RETURN
  80    a     -         -     local   local 2    60m    first  -
Members:
  CLUSTER  SERVICE   STATE        SINCE  STANDING    PORTS   SERVED  CHANGED  WHY NOT
  local    shop/web  ready        60m    in-service  8080    1 of 3  60s      internalTrafficPolicy is Local
  east     shop/api  stale        -      withdrawn   80, 81  1 of 4  -        cordoned
  north    shop/web  unreachable  60m    in-service  -       0 of 0  -        cluster is unreachable: dial tcp: refused
Addresses:
  CLUSTER  SLICE       ADDRESS        VERDICT                FOR             ZONE  TIER   CHANGED  WHY
  local    shop/web-x  10.0.0.1:8080  served                 Pod shop/web-1  a     local  60s      clients get it
  local    shop/web-x  10.0.0.2:8080  other-node             -               -     -      -        traffic stays on the client's node, by internalTrafficPolicy: n2
  local    shop/web-x  10.0.0.3:8080  other-instance         -               -     -      -        it does not have the hostname that was asked for: it has none
  east     shop/api-y  10.1.0.1:80    served                 -               -     -      -        clients get it
  east     shop/api-y  10.1.0.2:80    not-ready              -               -     -      -        it is not ready: more
  east     shop/api-y  10.1.0.3       hinted-to-other-zones  -               -     -      -        it is hinted to other zones than the client's: b, c
  east     shop/api-y  "\x1b[31m"     of-tomorrow            -               -     -      -        of-tomorrow
What to do:
  east is stale: its API has stopped answering; what it had stays: isthmus clusters shows why
  north is unreachable: its API has never answered: isthmus clusters shows why; check server and credentials of its link Secret
  hinted-to-other-zones (1): that keeps traffic in its zone; to end it, take trafficDistribution and service.kubernetes.io/topology-mode off the Service, or see what writes the hints
  not-ready (1): look at its readiness: kubectl describe pod, in its cluster
  other-node (1): run its Pods on the client's node too, or set the Service's internalTrafficPolicy to Cluster
Proxies:
  DESTINATION                    NODE  ZONE  STREAMS  UP TO DATE  WAIT  SLOW  VERSION  ENDPOINTS  LAST MESSAGE
  web.shop.svc.cluster.local:80  -     a     4        1           1     2     3        2          1s
  … and 2 more: -o json lists 1 of them
`

// TestExplainMembers: why a member that is there offers nothing, or another port; and what to do
// about a verdict that the client's node decides on, if nobody has named the node.
func TestExplainMembers(t *testing.T) {
	const page = `{"authority": "web.shop.svc.cluster.local:80", "defined": true, "set": {"endpoints": 1},
  "members": [{"cluster": "a", "service": "shop/web", "state": "ready", "ports": []}, {"cluster": "b", "service": "shop/web", "state": "ready", "ports": []}, {"cluster": "c", "service": "shop/web", "state": "ready", "ports": [8080]}],
  "verdicts": {"served": 1, "other-node": 1},
  "addresses": [{"cluster": "b", "service": "shop/web", "address": "10.0.0.1:80", "verdict": "served"}, {"cluster": "c", "service": "shop/web", "address": "10.0.0.2:8080", "verdict": "other-node"}]}`
	admin := startAdmin(t, map[string]http.HandlerFunc{"/debug/explain": text(page)})
	_, out, _ := call("explain", "shop/web", "--admin", admin)
	for _, want := range []string{
		`(?m)^  a .* 0 of 0 .* its EndpointSlices have no addresses$`, `(?m)^  b .* 1 of 1 .* its Service does not have the port: .*$`,
		`(?m)^  c .* 0 of 1 +- +-$`, `(?m)^  other-node \(1\): give the client's node by --node$`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	_, out, _ = call("explain", "shop/web", "--admin", admin, "--node", "n")
	if !strings.Contains(out, "other-node (1): run its Pods on the client's node too") {
		t.Errorf("with --node:\n%s", out)
	}
}

// asked keeps the questions that a page gets.
type asked struct{ last url.Values }

func (a *asked) answer(page string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a.last = r.URL.Query()
		text(page)(w, r)
	}
}

// TestExplainTable: what there is of a page with everything.
func TestExplainTable(t *testing.T) {
	var a asked
	admin := startAdmin(t, map[string]http.HandlerFunc{"/debug/explain": a.answer(explainJSON)})
	code, out, err := call("explain", "shop/web", "--admin", admin)
	if want := shown(explainTable, admin); code != 0 || err != "" || out != want {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s\nwant:\n%s", code, err, out, want)
	}
}

// TestExplainAsks: what the page is asked for.
func TestExplainAsks(t *testing.T) {
	var a asked
	admin := startAdmin(t, map[string]http.HandlerFunc{"/debug/explain": a.answer(explainJSON)})
	for args, want := range map[string]url.Values{
		"shop/web": {"authority": {"shop/web"}},
		`web.shop:80 --token {"ns":"a&b"} --address ::ffff:10.0.0.1`: {"authority": {"web.shop:80"}, "token": {`{"ns":"a&b"}`}, "address": {"10.0.0.1"}},
		`web.shop:80 --node n"1 --address 10.0.0.1:8080`:             {"authority": {"web.shop:80"}, "token": {`{"nodeName":"n\"1"}`}, "address": {"10.0.0.1"}},
	} {
		if code, _, err := call(append([]string{"explain", "--admin", admin}, strings.Fields(args)...)...); code != 0 || fmt.Sprint(a.last) != fmt.Sprint(want) {
			t.Errorf("%s: exit code %d, %s, asked for %v", args, code, err, a.last)
		}
	}
	for args, want := range map[string]string{
		"":                                `no AUTHORITY given`,
		"a --token x":                     "--token: invalid character",
		"a --token {} --node n":           "both --token and --node are given",
		"a --address web":                 `--address is "web": give an IP address`,
		"a --address fe80::1%eth0":        `--address is "fe80::1%eth0"`,
		"a --address [fe80::1%eth0]:80":   `--address is "[fe80::1%eth0]:80"`,
		"a --timeout 0s --address 1.2.3.": "--timeout is 0s",
	} {
		a.last = nil
		if code, out, err := call(append([]string{"explain"}, strings.Fields(args)...)...); code != 2 || out != "" || !strings.HasPrefix(err, "isthmus explain: "+want) || a.last != nil {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", args, code, out, err)
		}
	}
}

// TestExplainExitCode: 0 if the client gets what was asked about.
func TestExplainExitCode(t *testing.T) {
	for _, c := range []struct {
		page, args string
		code       int
		stderr     string
	}{
		{`"set": {"endpoints": 1}, "verdicts": {"served": 1}`, "", 0, ""},
		{`"set": {"endpoints": 1}, "verdicts": {"served": 1, "not-ready": 1}`, "--address 10.0.0.1", 0, ""},
		{`"set": {"endpoints": 1}, "verdicts": {"not-ready": 1}`, "--address 10.0.0.1", 1, "this client does not get 10.0.0.1\n"},
		{`"set": {"endpoints": 1}, "verdicts": {}`, "--address 10.0.0.1", 1, "no EndpointSlice of web:80 has 10.0.0.1\n"},
		{`"set": {"endpoints": 0}, "verdicts": {"not-ready": 1}`, "", 1, "this client gets no endpoint\n"},
		{`"set": {"endpoints": 0}, "refused": "NotFound: no such service\u001b"`, "", 1, `a new stream of this client is refused: "NotFound: no such service\x1b"`},
		{`"set": {"endpoints": 1}, "refused": "ResourceExhausted: full"`, "-o json", 1, "a new stream of this client is refused: ResourceExhausted: full"},
	} {
		admin := startAdmin(t, map[string]http.HandlerFunc{"/debug/explain": text(`{"authority": "web:80", ` + c.page + `}`)})
		code, out, err := call(append([]string{"explain", "web", "--admin", admin}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(out, "web:80") || (err == "") != (c.stderr == "") || c.stderr != "" && !strings.HasPrefix(err, "isthmus explain: "+c.stderr) {
			t.Errorf("%s %s: exit code %d, stderr %q, stdout:\n%s", c.page, c.args, code, err, out)
		}
	}
}

// manyPage has 100 addresses that are served and one, the last, that is not.
func manyPage(n int) adminapi.Explanation {
	p := adminapi.Explanation{Authority: "web:80", Defined: true, Verdicts: map[string]int{served: n, "not-ready": 1}, More: 7}
	for i := range n {
		p.Addresses = append(p.Addresses, adminapi.ExplainedAddress{Cluster: "east", Address: fmt.Sprint("10.0.0.", i), Verdict: served})
		p.Held = append(p.Held, adminapi.HeldView{Destination: "web"})
	}
	p.Addresses = append(p.Addresses, adminapi.ExplainedAddress{Cluster: "east", Address: "10.9.9.9", Verdict: "not-ready"})
	p.Members = []adminapi.ExplainedMember{{Cluster: "east", State: "ready"}}
	return p
}

// TestExplainMany: of many addresses those that are not served come first, and the rest is
// counted. Who asks for one address gets all that have it.
func TestExplainMany(t *testing.T) {
	s := &explainState{page: manyPage(100), at: noon}
	headline, lines := s.table()
	if headline != "web:80: 100 of 101 addresses served" {
		t.Errorf("%q", headline)
	}
	text := string(lines)
	for _, want := range []string{
		"Addresses (100 served, 1 not-ready):\n", "WHY\n  east     -      10.9.9.9   not-ready ", "  … and 61 more: --address IP shows one, -o json 101 of them\n",
		"  … and 80 more: -o json lists 100 of them\n", "Client: any, in no zone (--node or --token names one)\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if n := strings.Count(text, "clients get it"); n != maxAddressLines-1 {
		t.Errorf("%d addresses that are served", n)
	}
	s.address = netip.MustParseAddr("10.0.0.1")
	if _, lines := s.table(); strings.Count(string(lines), "clients get it") != 100 {
		t.Errorf("some are missing:\n%s", lines)
	}
}

// TestExplainEmpty: what is shown of a service without anything, and that colours change
// nothing but colours.
func TestExplainEmpty(t *testing.T) {
	s := &explainState{page: adminapi.Explanation{Authority: "web:80", Refused: "NotFound: none"}, node: "n1", at: noon}
	headline, lines := s.table()
	if want := "Client: node n1, whose zone the gateway does not know\nA new stream is refused: NotFound: none\nWhat to do:\n" +
		"  no such Service: see whether name, namespace and port are those that the application dials: kubectl get service -A\n" +
		"No proxy of this gateway follows the service.\n"; headline != "web:80 (no such Service): no addresses" || string(lines) != want {
		t.Errorf("%q:\n%s", headline, lines)
	}
	plainText, coloured := &explainState{page: manyPage(3), at: noon}, &explainState{page: manyPage(3), at: noon, colours: true}
	_, want := plainText.table()
	_, got := coloured.table()
	for _, c := range []colour{red, green, yellow, "\x1b[0m"} {
		if c != yellow && !strings.Contains(string(got), string(c)) {
			t.Errorf("no colour %q", c)
		}
		got = []byte(strings.ReplaceAll(string(got), string(c), ""))
	}
	if string(got) != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// FuzzExplain: likewise for pages about services, and for the error that ends the verb.
func FuzzExplain(f *testing.F) {
	f.Add([]byte(explainJSON), "n1", true)
	f.Add([]byte(strings.NewReplacer("shop", `\u001b]0;\u009b\u202e\n`, "Pod", "\u009b\U000e0001", "served", `\u0000`).Replace(explainJSON)), "\x1b[2J", false)
	f.Fuzz(func(t *testing.T, page []byte, node string, one bool) {
		s := &explainState{at: noon, node: node}
		if one {
			s.address = netip.MustParseAddr("10.0.0.1")
		}
		if json.Unmarshal(page, &s.page) != nil {
			return
		}
		checkHarmless(t, s)
		if err := s.unserved(); err != nil && strings.ContainsFunc(strings.ReplaceAll(err.Error(), "\n  ", ""), legible.Unprintable) {
			t.Fatalf("%q", err)
		}
	})
}
