package client

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

var exportsJSON = `{
  "replica": {"name": "me"}, "writer": {"mode": "on", "identity": "me", "holder": "me", "leading": true, "mcs": "v1beta1", "notes": ["Link mc/east can't be read"]},
  "exports": [
    {"cluster": "east", "export": "shop/web", "kind": "federated", "object": "shop/web-federated", "state": "written"},
    {"cluster": "east", "export": "shop/web", "kind": "mirror", "object": "shop/web-east", "state": "failed", "detail": "quota"},
    {"cluster": "north", "export": "shop/web", "kind": "federated", "object": "shop/web-federated", "state": "held", "until": ` + before(-90*time.Second) + `}],
  "conflicts": [{"object": "shop/web-federated", "kind": "federated", "reason": "PortConflict", "message": "port http: 80 (east), 81 (north)"}],
  "changes": [
    {"verb": "create", "object": "shop/web-east", "kind": "mirror", "of": "shop/web", "error": "quota",
      "fields": [{"field": "port 80/TCP", "after": "to 8080, name http"}, {"field": "type", "after": "ClusterIP"}]},
    {"verb": "update", "object": "shop/web-federated", "kind": "federated", "of": "shop/web",
      "fields": [{"field": "label team", "before": "a", "after": "b"}, {"field": "label old\u001b[2J", "before": "x"}]},
    {"verb": "status", "objectKind": "ServiceImport", "object": "shop/cart", "kind": "import", "of": "shop/cart", "fields": [{"field": "clusters", "before": "east", "after": "east, north"}]},
    {"verb": "delete", "object": "shop/old-east", "kind": "mirror", "of": "shop/old", "fields": []}],
  "written": ["shop/old-east", "shop/web-federated"], "writtenImports": ["shop/cart"], "moreExports": 2, "moreChanges": 1}`

const exportsTable = `12:00:00.000  ADMIN: 5 exports, written by me; 5 objects are to be changed: --diff shows it
  EXPORT    CLUSTER  KIND       WRITTEN AS     STATE    UNTIL  DETAIL
  shop/web  east     federated  web-federated  written  -      -
  shop/web  east     mirror     web-east       failed   -      quota
  shop/web  north    federated  web-federated  held     90s    -
  … and 2 more: name one, or a namespace
Conflicts:
  shop/web-federated: PortConflict: port http: 80 (east), 81 (north)
Linkerd:
  Link mc/east can't be read
`

const exportsDiff = `--- /dev/null
+++ Service shop/web-east
@@ create, for the mirror of shop/web @@
 # tried, and failed: quota
+port 80/TCP: to 8080, name http
+type: ClusterIP
--- Service shop/web-federated
+++ Service shop/web-federated
@@ update, for the federated of shop/web @@
-label team: a
+label team: b
-"label old\x1b[2J: x"
--- ServiceImport shop/cart
+++ ServiceImport shop/cart
@@ status, for the import of shop/cart @@
-clusters: east
+clusters: east, north
--- Service shop/old-east
+++ /dev/null
@@ delete, for the mirror of shop/old @@
# … and 1 more: name one, or a namespace
`

func TestExports(t *testing.T) {
	asked := ""
	admin := startAdmin(t, map[string]http.HandlerFunc{"/debug/exports": func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.RawQuery
		io.WriteString(w, exportsJSON)
	}})
	for _, x := range []struct {
		args, query, out, err string
		code                  int
	}{
		{"", "", exportsTable, "", 0},
		{"shop/web cart.shop web", "service=shop%2Fweb&service=shop%2Fcart&service=web", exportsTable, "", 0},
		{"--diff shop/", "service=shop%2F", exportsDiff, "isthmus exports: 5 objects are to be changed\n", 1},
	} {
		code, out, err := call(append(strings.Fields("exports --admin "+admin), strings.Fields(x.args)...)...)
		if code != x.code || out != shown(x.out, admin) || err != x.err || asked != x.query {
			t.Errorf("%s: exit code %d, %q, asked for %q, stdout\n%s", x.args, code, err, asked, out)
		}
	}
	if code, out, err := call("exports", "--admin", admin, "-o", "json"); code != 0 || !strings.Contains(out, `,"exports":[{"cluster":"east",`) {
		t.Errorf("exit code %d, %s, %s", code, err, out)
	}
}

// TestExportsWritten: what --written prints is what kubectl reads: a stream of objects with names.
func TestExportsWritten(t *testing.T) {
	admin := startAdmin(t, map[string]http.HandlerFunc{"/debug/exports": text(exportsJSON)})
	_, out, _ := call("exports", "--admin", admin, "--written")
	decoder, got := yaml.NewYAMLOrJSONDecoder(strings.NewReader(out), 4096), ""
	for {
		var s corev1.Service
		if err := decoder.Decode(&s); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		got += s.APIVersion + " " + s.Kind + " " + s.Namespace + "/" + s.Name + ";"
	}
	if want := "v1 Service shop/old-east;v1 Service shop/web-federated;multicluster.x-k8s.io/v1beta1 ServiceImport shop/cart;"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestExportsErrors(t *testing.T) {
	off := startAdmin(t, nil)
	unread := startAdmin(t, map[string]http.HandlerFunc{"/debug/exports": text(`{"unread":"the Services have not been read"}`)})
	for args, want := range map[string]string{
		"--admin " + off:            "isthmus exports: " + off + " knows nothing of exports: it runs with --exports=off, which is the default\n  Start it with --exports=plan",
		"--admin " + unread:         "isthmus exports: " + unread + ": the Services have not been read",
		"--diff --written":          "isthmus exports: --diff shows what is to be changed, --written what is there: give one of them",
		"a/b/c":                     `isthmus exports: "a/b/c" is no service's name: give NAME, NAMESPACE/NAME`,
		"/":                         `isthmus exports: "/" is no service's name`,
		"--admin " + unread + " x/": "isthmus exports: " + unread + ": the Services",
	} {
		if code, out, err := call(append([]string{"exports"}, strings.Fields(args)...)...); code == 0 || out != "" || !strings.HasPrefix(err, want) {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q, want %q", args, code, out, err, want)
		}
	}
}
