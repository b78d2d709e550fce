package links

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"

	"isthmus/internal/adminapi"
)

// foresees returns a page about one port of a service. The parameters now and then have the form
// "CLUSTER N".
func foresees(service string, port uint16, now, then string) *adminapi.Impact {
	parse := func(text string) (list []adminapi.ImpactCount) {
		for one := range strings.SplitSeq(text, ", ") {
			var c adminapi.ImpactCount
			if _, err := fmt.Sscan(one, &c.Cluster, &c.Count); err != nil {
				panic(err)
			}
			list = append(list, c)
		}
		return list
	}
	one := adminapi.ServiceImpact{Service: service, Watched: port != 0, Port: port, Now: parse(now), Then: parse(then)}
	if port != 0 {
		one.Streams = 4
	}
	return &adminapi.Impact{Services: []adminapi.ServiceImpact{one}}
}

// TestImpacts checks the text for the responses of one replica and of several. The streams of all
// replicas count, and the worst result is shown.
func TestImpacts(t *testing.T) {
	unwatched := foresees("s", 0, "east 1, north 1", "east 0, north 1")
	zoned := foresees("s", 80, "local 1, east 1", "local 1, east 0")
	zoned.Services[0].Zone = "z\x1b"
	many := strings.TrimSuffix(strings.Repeat("c 1, ", 9), ", ")
	for _, c := range []struct {
		replicas []*adminapi.Impact
		want     string
	}{
		{nil, ""},
		{[]*adminapi.Impact{foresees("s", 80, "local 2, east 3", "local 2, east 0")},
			"s port 80: 2 endpoints instead of 5: local 2, east 0 (now local 2, east 3, 4 streams)"},
		{[]*adminapi.Impact{foresees("s", 80, "local 0, east 3", "local 0, east 0")},
			"s port 80: NOTHING (now local 0, east 3, 4 streams)"},
		{[]*adminapi.Impact{foresees("s", 80, "local 0, east 0", "local 0, east 0")},
			"s port 80: 0 endpoints instead of 0: local 0, east 0 (now local 0, east 0, 4 streams)"},
		{[]*adminapi.Impact{foresees("s", 80, "local 0, east 3", "local 1, east 0")},
			"s port 80: 1 endpoint instead of 3: local 1, east 0 (now local 0, east 3, 4 streams)"},
		{[]*adminapi.Impact{foresees("s", 80, many, many)},
			"s port 80: 9 endpoints instead of 9: c 1, c 1, c 1, c 1, c 1 and 4 more (now c 1, c 1, c 1, c 1, c 1 " +
				"and 4 more, 4 streams)"},
		{[]*adminapi.Impact{zoned},
			`s port 80 in zone "z\x1b": 1 endpoint instead of 2: local 1, east 0 (now local 1, east 1, 4 streams)`},
		{[]*adminapi.Impact{unwatched, unwatched},
			"s: 1 cluster instead of 2: east 0, north 1 (now east 1, north 1, without streams)"},
		{[]*adminapi.Impact{foresees("s", 0, "east 1", "east 0")}, "s: NOTHING (now east 1, without streams)"},
		{[]*adminapi.Impact{foresees("s", 80, "local 2, east 3", "local 2, east 0"),
			foresees("s", 80, "local 1, east 3", "local 1, east 0")},
			"s port 80: 1 endpoint instead of 4: local 1, east 0 (now local 1, east 3, 8 streams)"},
		{[]*adminapi.Impact{foresees("s", 80, "local 0, east 0", "local 0, east 0"),
			foresees("s", 80, "local 0, east 3", "local 0, east 0")},
			"s port 80: NOTHING (now local 0, east 3, 8 streams)"},
		{[]*adminapi.Impact{unwatched, foresees("s", 80, "local 2, east 3", "local 2, east 0")},
			"s port 80: 2 endpoints instead of 5: local 2, east 0 (now local 2, east 3, 4 streams)"},
		{[]*adminapi.Impact{foresees("s", 80, "local 2, east 3", "local 2, east 0"),
			foresees("other", 80, "east 1", "east 0")},
			"other port 80: NOTHING (now east 1, 4 streams);s port 80: 2 endpoints instead of 5: local 2, east 0 " +
				"(now local 2, east 3, 4 streams)"},
	} {
		var list []string
		for _, i := range impacts(c.replicas) {
			list = append(list, impactText(&i, false))
		}
		if got := strings.Join(list, ";"); got != c.want {
			t.Errorf("%s\nwant\n%s", got, c.want)
		}
	}
	if got := impactText(&zoned.Services[0], true); got != `s port 80 in zone "z\x1b" (local 1, east 1, 4 streams)` {
		t.Error(got)
	}
}

// TestUnlinkImpact checks that unlink deletes the link only with the user's consent. The services that
// remain without endpoints never prevent the deletion, even if no replica responds.
func TestUnlinkImpact(t *testing.T) {
	const nobody = "127.0.0.1:1"
	answer, err := json.Marshal(foresees("shop/web", 80, "local 0, east 3", "local 0, east 0"))
	if err != nil {
		t.Fatal(err)
	}
	replica := showing(t, func() string { return string(answer) })
	hangs := hanging(t)
	for name, x := range map[string]struct {
		admin, stdin string
		set          unlinkOptions
		timeout      time.Duration // the default is one minute
		want         string        // part of the output
		deleted      bool
	}{
		"confirmed":             {admin: replica, stdin: "y\n", deleted: true},
		"not confirmed":         {admin: replica, stdin: "n\n"},
		"no replica":            {admin: nobody, stdin: "y\n", deleted: true},
		"no replica, --yes":     {admin: nobody, set: unlinkOptions{yes: true}, deleted: true},
		"--yes":                 {admin: replica, set: unlinkOptions{yes: true}, deleted: true},
		"no replica, --dry-run": {admin: nobody, set: unlinkOptions{dryRun: true}},
		"--dry-run":             {admin: replica, set: unlinkOptions{dryRun: true}},
		"no answer, --yes": {
			admin: hangs, set: unlinkOptions{yes: true}, timeout: time.Second,
			want: "the effect on services is unknown: no replica responded within 1s", deleted: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			link, err := newContent("x").toSecret(nil, "linkerd")
			if err != nil {
				t.Fatal(err)
			}
			local, api := newFake("west", link)
			api.PrependReactor("create", "selfsubjectaccessreviews", allowAll)
			w, out := newWork()
			w.p.Stdin, w.p.Interactive = strings.NewReader(x.stdin), true
			o := x.set
			o.name, o.Namespace, o.Timeout, o.Address = "east", "linkerd", cmp.Or(x.timeout, time.Minute), x.admin
			w.dry = o.dryRun
			err = o.unlink(t.Context(), w, local, nil)
			if want := x.deleted || o.dryRun; (err == nil) != want {
				t.Error(err)
			}
			if !strings.Contains(out.String(), x.want) {
				t.Errorf("%q is missing in\n%s", x.want, out)
			}
			_, err = api.CoreV1().Secrets("linkerd").Get(t.Context(), link.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) != x.deleted {
				t.Errorf("get of the Secret: %v", err)
			}
		})
	}
}

// hanging returns the address of a replica that does not respond.
func hanging(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// allowAll grants the user every permission.
func allowAll(k8stesting.Action) (bool, runtime.Object, error) {
	review := new(authorizationv1.SelfSubjectAccessReview)
	review.Status.Allowed = true
	return true, review, nil
}

// FuzzImpacts checks that no response of a replica prints characters that the terminal interprets.
func FuzzImpacts(f *testing.F) {
	text, err := json.Marshal(foresees("s", 80, "local 2, east 3", "local 3, east 0"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add(strings.NewReplacer(`"s"`, `"\u009b\u202e\n"`, "local", `\u001b[2J`).Replace(string(text)))
	f.Fuzz(func(t *testing.T, text string) {
		page := new(adminapi.Impact)
		if json.Unmarshal([]byte(text), page) != nil {
			return
		}
		for _, i := range impacts([]*adminapi.Impact{page, page}) {
			for _, r := range impactText(&i, false) + impactText(&i, true) {
				if !unicode.IsPrint(r) {
					t.Fatalf("%q in %q", r, impactText(&i, false))
				}
			}
		}
	})
}

// FuzzDescribeCluster checks that no entry of a cluster prints characters that the terminal
// interprets.
func FuzzDescribeCluster(f *testing.F) {
	f.Add(`{"state":"ready","reason":"\u001b","warnings":["\n","x"]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var c adminapi.Cluster
		if json.Unmarshal([]byte(text), &c) == nil &&
			strings.ContainsFunc(describeCluster(&c), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("%q", describeCluster(&c))
		}
	})
}

// TestDescribeRotation checks that the reason why new credentials are not used is shown, however
// many other warnings exist.
func TestDescribeRotation(t *testing.T) {
	c := adminapi.Cluster{NewCredentials: "they lack a permission"}
	c.State, c.Warnings = adminapi.Ready, []string{"1", "2", "3", "4", "5", "they lack a permission"}
	if got, want := describeCluster(&c), "ready; they lack a permission; 1; 2; 3; 4"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
