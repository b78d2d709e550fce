package follow

import (
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// TestRelist: when a new list is asked for, the watch gives way to one that the server reads
// from its storage, once for any number of askers. That is no failure.
func TestRelist(t *testing.T) {
	for mode, noWatchList := range map[string]bool{"streamed": false, "in pages": true} {
		t.Run(mode, func(t *testing.T) {
			const missed = "missed"
			s := &server{noWatchList: noWatchList}
			var mu sync.Mutex
			var versions []string // that lists ask for
			asks := func(o metav1.ListOptions) {
				mu.Lock()
				defer mu.Unlock()
				versions = append(versions, o.ResourceVersion)
			}
			s.list = func(o metav1.ListOptions) (*corev1.SecretList, error) {
				asks(o)
				list := &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Secret{*secret("a")}}
				if len(s.watches) > 0 { // the reflector does one thing at a time
					list.Items = append(list.Items, *secret(missed))
				}
				return list, nil
			}
			s.stream = func(o metav1.ListOptions, w *watch.FakeWatcher, n int) {
				if streamsList(o) {
					asks(o)
					if n > 0 {
						w.Add(secret(missed))
					}
				}
				sendInitial(o, w)
			}
			s.run(t, func(g *Group, known *lockedNames, troubles func() []string) {
				time.Sleep(10 * time.Second)
				if n := len(s.opened()); n != 1 || known.has(missed) {
					t.Fatalf("%d watches before", n)
				}
				for range 3 {
					g.resources[0].Relist()
				}
				time.Sleep(2 * time.Second)
				opened := s.opened()
				if len(opened) != 2 || !opened[0].IsStopped() || !known.has(missed) || !known.has("a") {
					t.Fatalf("%d watches after", len(opened))
				}
				mu.Lock()
				if len(versions) != 2 || versions[1] != "" {
					t.Errorf("lists have asked for the versions %q", versions)
				}
				mu.Unlock()
				if h := g.Health(); h.Err != nil || !h.Lost.IsZero() || h.Resources[0].Trouble != "" || len(troubles()) != 0 {
					t.Errorf("health: %+v", h)
				}
				opened[1].Add(secret("later"))
				time.Sleep(30 * time.Second)
				if n := len(s.opened()); n != 2 || !known.has("later") {
					t.Errorf("%d watches later", n)
				}
			})
		})
	}
}
