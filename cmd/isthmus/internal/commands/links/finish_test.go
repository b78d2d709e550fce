package links

import (
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTokenBefore: the token before ends once the gateway reads the cluster with the new one, and no earlier.
func TestTokenBefore(t *testing.T) {
	old := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "old", UID: "u"}}
	written := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "linkerd", Name: "s", ResourceVersion: "8"}}
	there, east := newFake("east", old)
	here, _ := newFake("west", written)
	left := func() bool {
		_, err := east.CoreV1().Secrets("ns").Get(t.Context(), "old", metav1.GetOptions{})
		return err == nil
	}
	const follows = `{"clusters":[{"cluster":"east","secret":"s","secretVersion":"8","state":"ready"}]}`
	var asked atomic.Int64
	var pages []string // the last one stays
	admin := showing(t, func() string {
		if !left() {
			t.Error("the token before has ended while the gateway may use it")
		}
		return pages[min(int(asked.Add(1)), len(pages))-1]
	})
	finish := func(timeout string) error {
		o, ctx := newOptions(t, "--apply", "--admin", admin, "--timeout", timeout)
		w, _ := newWork()
		l := &linking{o: o, here: here, there: there, before: []corev1.Secret{*old}}
		return l.finish(ctx, w, written)
	}
	pages = []string{
		strings.Replace(follows, `"8"`, `"7"`, 1),           // it has not seen the Secret yet
		strings.Replace(follows, "ready", "unreachable", 1), // the new token does not work
		`{"clusters":[]}`, // it has just begun
	}
	if err := finish("2s"); err == nil || !strings.Contains(err.Error(), "the tokens before it stay valid") || !left() || asked.Load() < 2 {
		t.Errorf("%v, the token is left: %v, asked %d times", err, left(), asked.Load())
	}
	pages = append(pages, follows)
	asked.Store(2)
	if err := finish("1m"); err != nil || left() {
		t.Errorf("%v, the token is left: %v", err, left())
	}
}
