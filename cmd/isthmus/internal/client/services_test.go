package client

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

var servicesJSON = `[
  {"service": "shop/odd", "federated": false, "members": [], "ports": [], "streams": 0, "problems": ["bad"]},
  {"service": "shop/w-clusterset", "federated": true, "imported": true, "members": [{"cluster": "east", "service": "shop/web"}], "ports": [], "streams": 0},
  {"service": "shop/web", "federated": false, "members": [{"cluster": "local", "service": "shop/web"}],
    "ports": [{"port": 80, "members": [{"cluster": "local", "service": "shop/web", "endpoints": 2, "updates": 1}]},
      {"port": 81, "members": []}, {"port": 82, "members": []}, {"port": 83, "members": []}], "streams": 4},
  {"service": "shop/web-east", "federated": false, "members": [{"cluster": "east", "service": "shop/web"}], "ports": [], "streams": 0},
  {"service": "shop/web-federated", "federated": true,
    "members": [{"cluster": "local", "service": "shop/web"}, {"cluster": "east", "service": "shop/web", "reason": "cluster is unlinked"}],
    "ports": [{"port": 80, "members": [{"cluster": "local", "service": "shop/web", "endpoints": 2},
      {"cluster": "east", "service": "shop/web", "endpoints": 3, "conflicts": 1, "conflictsWith": ["10.0.0.1:80 is sent from shop/web"], "refused": 2}]}],
    "streams": 3,
    "preference": {"prefer": "local, any", "minReady": "50%", "returnAfter": "30s", "returnOver": "0s"},
    "clients": [
      {"port": 80, "zone": "a", "tiers": [{"tier": "local", "inUse": true, "ready": 2, "known": 3, "sent": 2}, {"tier": "any", "inUse": false, "ready": 5, "sent": 0}],
        "since": ` + before(time.Hour) + `, "why": "first"},
      {"port": 0, "zone": "", "node": "n1", "tiers": [{"tier": "local", "inUse": true, "ready": 0}, {"tier": "any", "inUse": true, "ready": 5}],
        "since": ` + before(time.Minute) + `, "why": "none ready", "returnWaitsFor": "local: 0 ready"},
      {"port": 80, "zone": "b", "tiers": [{"tier": "local", "inUse": true, "ready": 2}, {"tier": "any", "inUse": true, "ready": 5}],
        "since": ` + before(time.Minute) + `, "why": "none ready", "nextStep": ` + before(-90*time.Second) + `}],
    "moreClients": 2}]`

const servicesTable = `12:00:00.000  ADMIN: 5 services
  SERVICE             KIND       MEMBERS      ENDPOINTS                                     STREAMS  TIERS               PROBLEMS
  shop/odd            -          -            -                                             0        -                   1
  shop/w-clusterset   import     east         -                                             0        -                   0
  shop/web            plain      local        80: local 2; 81: none; 82: none; 1 more port  4        -                   0
  shop/web-east       mirror     east         -                                             0        -                   0
  shop/web-federated  federated  local, east  80: local 2, east 3                           3        local | local, any  3
Problems:
  shop/odd: bad
  shop/web-federated: shop/web of east is not served: cluster is unlinked
  shop/web-federated: port 80: 1 address of east offered by another member too, such as 10.0.0.1:80 is sent from shop/web
  shop/web-federated: port 80: 2 addresses of east refused
`

const namedTable = `12:00:00.000  ADMIN: 1 service
  SERVICE             KIND       MEMBERS      ENDPOINTS            STREAMS  TIERS               PROBLEMS
  shop/web-federated  federated  local, east  80: local 2, east 3  3        local | local, any  3
shop/web-federated prefers local, any (min-ready 50%, return-after 30s, return-over 0s):
  PORT    ZONE  INSTANCE  NODE  IN USE      AVAILABLE            SINCE  WHY         RETURN
  80      a     -         -     local       local 2 of 3, any 5  60m    first       -
  others  -     -         n1    local, any  local 0, any 5       60s    none ready  local: 0 ready
  80      b     -         -     local, any  local 2, any 5       60s    none ready  in 1m30s
  … and 2 more kinds of clients
Problems:
  shop/web-federated: shop/web of east is not served: cluster is unlinked
  shop/web-federated: port 80: 1 address of east offered by another member too, such as 10.0.0.1:80 is sent from shop/web
  shop/web-federated: port 80: 2 addresses of east refused
`

// TestServicesTable: all services, and those that are named in full.
func TestServicesTable(t *testing.T) {
	admin := startAdmin(t, map[string]http.HandlerFunc{"/debug/services": text(servicesJSON)})
	for args, want := range map[string]string{
		"": servicesTable, "web-federated": namedTable, "shop/web-federated": namedTable, "web-federated.shop.svc.cluster.local:80": namedTable,
	} {
		code, out, err := call(append([]string{"services", "--admin=" + admin}, strings.Fields(args)...)...)
		if want := shown(want, admin); code != 0 || err != "" || out != want {
			t.Errorf("%q: exit code %d, stderr %q, stdout:\n%s\nwant:\n%s", args, code, err, out, want)
		}
	}
	code, out, err := call("services", "web", "other/web", "no", "-o", "json", "--admin="+admin)
	if code != 1 || strings.Count(out, `"service":"shop/web","federated"`) != 1 || strings.Contains(out, "odd") || !strings.Contains(err, "isthmus services: not on "+admin+": other/web, no\n") {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s", code, err, out)
	}
	if code, out, err := call("services", "no", "-o", "json", "--admin="+admin); code != 1 || !strings.HasSuffix(out, `,"services":[]}`+"\n") {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s", code, err, out)
	}
}

func TestServiceNames(t *testing.T) {
	for typed, want := range map[string]string{
		"web": "/web", "shop/web": "shop/web", "web.shop": "shop/web", "web.shop.svc": "shop/web", "web.shop.svc.cluster.local:80": "shop/web",
		"web-0.web.shop.svc.cluster.local": "shop/web", "web.svc": "svc/web",
		"": "", "/web": "", "shop/": "", "a/b/c": "", "web.": "", "a.b.c": "", ":80": "", "..svc": "",
	} {
		n, ok := parseServiceName(typed)
		got := n.namespace + "/" + n.name
		if ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q, %t, want %q", typed, got, ok, want)
		}
	}
	if code, _, err := call("services", "a/b/c"); code != 2 || !strings.Contains(err, `"a/b/c" is no service's name: give NAME, NAMESPACE/NAME or NAME.NAMESPACE`) {
		t.Errorf("exit code %d, %q", code, err)
	}
}
