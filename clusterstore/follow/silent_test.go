package follow

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// noticed is within which time a watch that has fallen silent is replaced.
const noticed = 2 * time.Minute

// TestSilentWatch: a watch by which nothing comes any more, whether or not bookmarks came
// before, is replaced by a list and a new watch; that is no failure. What has been
// missed is there then.
func TestSilentWatch(t *testing.T) {
	for name, bookmarks := range map[string]int{"from its beginning": 0, "later": 2} {
		t.Run(name, func(t *testing.T) {
			const missed = "missed"
			s := &scripted{}
			s.runNoting(t, Options{}, func(g *Group, known texts, troubles func() []string) {
				for range bookmarks {
					s.newest().bookmark("2")
					time.Sleep(time.Minute)
				}
				if n := len(s.opened()); n != 1 || known.has(missed) {
					t.Fatalf("%d watches while bookmarks come", n)
				}
				s.become("2", labelled("a", ""), labelled(missed, ""))
				time.Sleep(noticed)
				reported, opened := troubles(), s.opened()
				if len(opened) != 2 || !known.has(missed) || !known.has("a") || !opened[0].isClosed() {
					t.Errorf("%d watches", len(opened))
				}
				h := g.Health()
				if h.Err != nil || !h.StaleSince.IsZero() || len(reported) > 0 || h.Resources[0].Trouble != "" {
					t.Errorf("health: %+v; %q", h, reported)
				}
				opened[1].event(watch.Added, "3", labelled("later", ""))
				if !known.has("later") {
					t.Error("the new watch is not followed")
				}
				time.Sleep(20 * time.Minute) // again and again
				trouble := strings.TrimPrefix(strings.Join(troubles(), "; "), "secrets: ")
				if want := []string{"", string(silentWatch)}[min(bookmarks, 1)]; trouble != want ||
					g.Health().Resources[0].Trouble != want {
					t.Errorf("reported: %q; health: %q", trouble, g.Health().Resources[0].Trouble)
				}
			})
		})
	}
}

// TestSilentServer checks that the list after a silent watch fails within the time for a page if a server no longer
// answers.
func TestSilentServer(t *testing.T) {
	s := &scripted{}
	s.runNoting(t, Options{}, func(g *Group, known texts, _ func() []string) {
		<-g.Synced()
		s.hang()
		time.Sleep(watchSilence + pageTimeout - time.Second)
		synctest.Wait()
		if h := g.Health(); !h.StaleSince.IsZero() || h.Err != nil {
			t.Errorf("too early: %+v", h)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if h := g.Health(); h.StaleSince.IsZero() || !errors.Is(h.Err, errSlowPage) || !known.has("a") {
			t.Errorf("health: %+v", h)
		}
	})
}

// TestSilentList: a list whose answer does not come to its end fails in time.
func TestSilentList(t *testing.T) {
	s := &scripted{version: "1", pause: time.Hour}
	s.run(t, Options{}, func(t *testing.T, g *Group, _ texts) {
		time.Sleep(pageTimeout)
		synctest.Wait()
		if h := g.Health(); !errors.Is(h.Err, errSlowPage) {
			t.Errorf("health: %+v", h)
		}
	})
}

// TestEndlessWatch: a watch that the server does not end at the time-out that was
// requested is ended, and goes on from its last version.
func TestEndlessWatch(t *testing.T) {
	s := &scripted{}
	s.runNoting(t, Options{}, func(g *Group, _ texts, troubles func() []string) {
		end := time.Now().Add(time.Duration(*s.opened()[0].TimeoutSeconds)*time.Second + watchOverrun)
		for time.Until(end) > 0 {
			all := s.opened()
			if len(all) != 1 {
				t.Fatalf("%d watches, %v too early", len(all), time.Until(end))
			}
			all[0].bookmark("2")
			time.Sleep(min(time.Minute, time.Until(end)))
		}
		opened, reported := s.opened(), troubles()
		if len(opened) != 2 || opened[1].ResourceVersion != "2" {
			t.Errorf("watches: %+v", opened)
		}
		if h := g.Health(); h.Err != nil || len(reported) != 1 || !strings.HasSuffix(reported[0], string(overdueWatch)) {
			t.Errorf("%+v; %q", h, reported)
		}
	})
}

// always has another event.
type always struct{}

func (always) next() (event, error) { return event{kind: watch.Modified}, nil }
func (always) Close() error         { return nil }

// TestOverdueThoughBusy: a watch that always has something to read ends at its time too.
func TestOverdueThoughBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(secrets(nil, texts{}))
		NewGroup(Options{}, r)
		w := &watcher{from: always{}, resource: r, began: time.Now(), end: time.Now().Add(time.Minute)}
		w.ctx, w.stop = context.WithCancelCause(t.Context())
		w.timer = time.AfterFunc(time.Hour, w.expire)
		defer w.close()
		if _, err := w.next(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if _, err := w.next(); err != errOverdue {
			t.Errorf("after its time: %v", err)
		}
	})
}
