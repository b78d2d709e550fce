package links

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/clusterstore"
)

// TestTakenBack: where the gateway goes on with the token before, a rotation that does not come to an end leaves all as
// it was; where it does not, the new token stays.
func TestTakenBack(t *testing.T) {
	for state, back := range map[string]bool{"ready": true, "unreachable": false} {
		t.Run(state, func(t *testing.T) {
			existing, err := newContent("old").into(nil, "linkerd")
			if err != nil {
				t.Fatal(err)
			}
			existing.Annotations[clusterstore.CordonAnnotation] = "false"
			token := func(name string) *corev1.Secret {
				return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: defaultAccount.Namespace, Name: name}}
			}
			there, east := newFake("east", token("s-old"), token("s-new"))
			here, west := newFake("west", existing)
			page := `{"clusters":[{"cluster":"east","secret":"` + existing.Name + `","secretVersion":"before","state":"` + state + `"}]}`
			o, ctx := newOptions(t, "--apply", "--admin", showing(t, func() string { return page }), "--timeout", "1s")
			l := &linking{o: o, here: here, there: there, existing: existing, before: []corev1.Secret{*token("s-old")}, content: *newContent("new"), access: newAccess(defaultAccount)}
			w, _ := newWork()
			written, err := l.content.write(t.Context(), here, "linkerd", existing)
			if err != nil {
				t.Fatal(err)
			}
			err = l.finish(ctx, w, written)
			if err == nil || strings.Contains(err.Error(), "the link is as it was, and the new token is deleted") != back {
				t.Error(err)
			}
			now, err := west.CoreV1().Secrets("linkerd").Get(t.Context(), existing.Name, metav1.GetOptions{})
			if err != nil || sameCredentials(now, existing) != back || (now.Annotations[tokenAnnotation] == "s-old") != back || now.Annotations[clusterstore.CordonAnnotation] != "false" {
				t.Errorf("%v, %+v", err, now)
			}
			_, gone := east.CoreV1().Secrets(defaultAccount.Namespace).Get(t.Context(), "s-new", metav1.GetOptions{})
			if _, err := east.CoreV1().Secrets(defaultAccount.Namespace).Get(t.Context(), "s-old", metav1.GetOptions{}); err != nil || (gone != nil) != back {
				t.Errorf("the token before: %v; the new one: %v", err, gone)
			}
		})
	}
}

// TestTryWithoutTime: whose time is over while the link is tried is not advised to run again, and has no token left.
func TestTryWithoutTime(t *testing.T) {
	hang := make(chan bool)
	defer close(hang)
	kubeconfig, east, _ := hostileWorld(t, map[string]http.HandlerFunc{
		"POST /apis/authentication.k8s.io/v1/selfsubjectreviews": func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		},
	})
	began := time.Now()
	code, _, errs := call(t, "link", "east", "--context", "east", "--kubeconfig", kubeconfig, "--apply", "--timeout", "2s")
	if code != 1 || !strings.Contains(errs, "has not answered in time (--timeout)") || strings.Contains(errs, "stays") || !slices.Contains(east.requests(), "DELETE "+tokens+"/t1") {
		t.Errorf("exit code %d after %v, %s, asked %v", code, time.Since(began), errs, east.requests())
	}
}
