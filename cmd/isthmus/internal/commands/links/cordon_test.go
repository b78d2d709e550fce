package links

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/clusterstore"
)

// TestCordon checks that each command writes its annotations, keeps other annotations, and ends
// when the replica shows the change.
func TestCordon(t *testing.T) {
	for name, c := range map[string]struct {
		set                            cordonOptions
		before, standing, cordon, over string
	}{
		"cordon": {cordonOptions{}, "in-service", "withdrawn", "true", ""},
		"last resort": {cordonOptions{lastResort: true, over: time.Minute}, "in-service", "last-resort",
			"last-resort", "1m0s"},
		"uncordon": {cordonOptions{back: true}, "withdrawn", "in-service", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			link, err := newContent("x").toSecret(nil, "linkerd")
			if err != nil {
				t.Fatal(err)
			}
			link.Annotations[clusterstore.CordonAnnotation],
				link.Annotations[clusterstore.CordonOverAnnotation] = "before", "5m"
			local, api := newFake("west", link)
			o := c.set
			o.name, o.yes, o.Namespace, o.Timeout = "east", true, "linkerd", time.Minute
			asked := 0
			o.Address = showing(t, func() string {
				if asked++; asked < 3 { // the first response is the impact
					return `{"clusters":[{"cluster":"east","standing":"` + c.before + `"}]}`
				}
				return `{"clusters":[{"cluster":"east","standing":"` + c.standing + `"}]}`
			})
			w, _ := newWork()
			if err := o.cordon(t.Context(), w, local); err != nil || asked < 3 {
				t.Errorf("%v, asked %d times", err, asked)
			}
			now, err := api.CoreV1().Secrets("linkerd").Get(t.Context(), link.Name, metav1.GetOptions{})
			if err != nil || now.Annotations[clusterstore.CordonAnnotation] != c.cordon ||
				now.Annotations[clusterstore.CordonOverAnnotation] != c.over || now.Annotations[tokenAnnotation] == "" {
				t.Errorf("%v, %v", err, now.Annotations)
			}
		})
	}
}

// TestCordonOlder checks that cordon reports an older replica and does not judge the page of such a
// replica. The replica may lack the page.
func TestCordonOlder(t *testing.T) {
	for _, missing := range []bool{true, false} {
		older := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/debug/version":
				io.WriteString(w, `{"version":"v0.0.1","commit":"abc"}`)
			case missing:
				http.NotFound(w, r)
			default:
				io.WriteString(w, `{"services":[]}`)
			}
		}))
		defer older.Close()
		o := &cordonOptions{name: "east"}
		o.Address, o.Timeout = strings.TrimPrefix(older.URL, "http://"), time.Minute
		w, out := newWork()
		err := o.weigh(t.Context(), w)
		if err == nil || !strings.Contains(err.Error(), "is older than this program") ||
			!strings.Contains(err.Error(), "its version is v0.0.1") || !strings.Contains(err.Error(), "--force") {
			t.Errorf("without the page (%v): %v, %s", missing, err, out)
		}
	}
}
