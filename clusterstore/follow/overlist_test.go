package follow

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"isthmus/clusterstore/decode"
)

// flooded is an API whose lists consist of many slow pages.
type flooded struct {
	counts  bool // whether pages have the number of remaining objects
	mu      sync.Mutex
	objects int
	label   string // of all objects
	page    time.Duration
	events  *scriptedEvents // of the newest watch
	lists   []time.Time     // start times
	pages   []int           // number of requested pages by list
	old     int             // number of lists that request a version
}

func (f *flooded) List(
	_ context.Context, o metav1.ListOptions, each func(*corev1.Secret, *decode.Refused) error,
) (meta metav1.ListMeta, err error) {
	f.mu.Lock()
	all, page, label, first := f.objects, f.page, f.label, 0
	if _, err := fmt.Sscan(o.Continue, &first); err != nil {
		f.lists, f.pages = append(f.lists, time.Now()), append(f.pages, 0)
		if o.ResourceVersion != "" {
			f.old++
		}
	}
	f.pages[len(f.pages)-1]++
	f.mu.Unlock()
	time.Sleep(page)
	meta.ResourceVersion = "1"
	n := all - first
	if int64(n) > o.Limit {
		n = int(o.Limit)
		meta.Continue = fmt.Sprint(first + n)
		if left := int64(all - first - n); f.counts {
			meta.RemainingItemCount = &left
		}
	}
	for i := range n {
		if err := each(labelled(fmt.Sprint("n", first+i), label).object, nil); err != nil {
			return meta, err
		}
	}
	return meta, nil
}

func (f *flooded) Watch(ctx context.Context, o metav1.ListOptions) (decode.Events[*corev1.Secret], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = newEvents(ctx, o)
	return f.events, nil
}

func (f *flooded) become(objects int, page time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.objects, f.page = objects, page
}

// flood sends events of new objects until the watch ends.
func (f *flooded) flood() {
	f.mu.Lock()
	to, label := f.events, f.label
	f.mu.Unlock()
	for i := 0; to.event(watch.Added, "3", labelled(fmt.Sprint("flood", i), label)); i++ {
	}
}

// followFlooded caches the objects of all APIs under one memory cap until the test ends.
func followFlooded(t *testing.T, o Options, needed bool, apis ...*flooded) (*Group, *MemoryCap) {
	o.Memory = NewMemoryCap(64 << 10)
	var all []*Resource
	for i, f := range apis {
		k := secrets(f, texts{})
		k.Name, k.Needed = fmt.Sprint("secrets", i), needed
		all = append(all, New(k))
	}
	group := NewGroup(o, all...)
	t.Cleanup(start(t, group, nil))
	time.Sleep(time.Minute)
	synctest.Wait()
	if h := group.Health(); h.Err != nil || !h.StaleSince.IsZero() {
		t.Fatalf("at first: %+v", h)
	}
	return group, o.Memory
}

// TestRecovery checks that resources that together use up the memory cap are all listed again once
// they have shrunk.
func TestRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := &flooded{objects: 2}, &flooded{objects: 2}
		group, b := followFlooded(t, Options{}, true, one, two)
		var both sync.WaitGroup
		both.Go(one.flood)
		both.Go(two.flood)
		both.Wait()
		// Both resources together exceed the cap.
		one.become(80, 0)
		two.become(80, 0)
		synctest.Wait()
		h := group.Health()
		if h.StaleSince.IsZero() || h.Resources[0].Err == "" || h.Resources[1].Err == "" {
			t.Fatalf("over budget: %+v", h)
		}
		if free := 64<<10 - b.Usage().Used; free > 1<<10 {
			t.Fatalf("%d bytes are free", free)
		}
		// A resource that has grown meanwhile may have to wait until the other one has shrunk.
		time.Sleep(2 * (maxOverPause + 10*time.Second))
		synctest.Wait()
		if h = group.Health(); h.Err != nil || !h.StaleSince.IsZero() || h.Resources[0].Objects != 80 ||
			h.Resources[1].Objects != 80 {
			t.Errorf("afterwards: %+v, %+v", h, b.Usage())
		}
	})
}

// TestOverRest checks that the pause after a list over the memory cap grows with the duration of
// the list. The first list that fits ends the pauses.
func TestOverRest(t *testing.T) {
	for page, want := range map[time.Duration]time.Duration{
		time.Second:      minOverPause,
		3 * time.Second:  12 * time.Second,
		10 * time.Second: maxOverPause,
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &flooded{objects: 2}
			group, _ := followFlooded(t, Options{}, true, f)
			f.flood()
			f.become(1_000_000, page)
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			if h := group.Health(); h.StaleSince.IsZero() {
				t.Fatalf("over budget: %+v", h)
			}
			f.mu.Lock()
			for i, at := range f.lists[2:] { // skips the first list and the list that follows the events
				if rest := at.Sub(f.lists[i+1]) - page; rest < want || rest > want+5*time.Second {
					t.Errorf(
						"pages of %v: the pause after a list of %d pages is %v, not %v",
						page,
						f.pages[i+1],
						rest,
						want,
					)
				}
			}
			if f.old > 0 {
				t.Errorf("%d lists request a version", f.old)
			}
			f.mu.Unlock()
			f.become(2, 0)
			time.Sleep(want + 2*page + 5*time.Second)
			synctest.Wait()
			if h := group.Health(); h.Err != nil || !h.StaleSince.IsZero() || h.Resources[0].Objects != 2 {
				t.Errorf("afterwards: %+v", h)
			}
		})
	}
}

// TestListPace checks that the first list is handled without a rate limit. Later lists are handled
// at the rate of events, even if the first list was not completed.
func TestListPace(t *testing.T) {
	const objects = eventBurst + 2*eventRate
	for _, whole := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := sharingFeed(1 << 30)
			f.kind.Source = &flooded{objects: objects}
			for list := range 3 {
				began, want := time.Now(), time.Duration(0)
				f.beginList()
				if _, _, err := f.stagePage(t.Context(), metav1.ListOptions{Limit: objects}); err != nil {
					t.Fatal(err)
				}
				if whole {
					f.commit()
				}
				if list > 0 {
					want = 2 * time.Second
				}
				if took := time.Since(began).Round(time.Millisecond); took != want {
					t.Errorf("list %d takes %v instead of %v", list, took, want)
				}
				time.Sleep(time.Minute)
			}
		})
	}
}

// TestAnnounced checks that a list ends with its first page if the announced number of objects
// cannot fit. A list that fits is completed for any announced number.
func TestAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flooded{objects: 2, counts: true}
		group, _ := followFlooded(t, Options{}, true, f)
		f.flood()
		f.become(1_000_000, 0)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		f.mu.Lock()
		if len(f.pages) < 20 || slices.Max(f.pages) > 1 {
			t.Errorf("pages of lists: %d", f.pages)
		}
		f.mu.Unlock()
		if h := group.Health(); h.StaleSince.IsZero() ||
			!strings.Contains(h.Err.Error(), "over budget: the cache of secrets0 needs ") {
			t.Errorf("over budget: %+v", h)
		}
		f.become(100, 0)
		time.Sleep(maxOverPause)
		synctest.Wait()
		if h := group.Health(); h.Err != nil || !h.StaleSince.IsZero() || h.Resources[0].Objects != 100 {
			t.Errorf("afterwards: %+v", h)
		}
	})
	k := newAccount(NewMemoryCap(1<<20), "pods", newPrints())
	if err := k.stage(1000, nil); err != nil {
		t.Fatal(err)
	}
	for more, fits := range map[int64]bool{
		-1:            true,
		0:             true,
		100:           true,
		1000:          true,
		1100:          false,
		math.MaxInt64: false,
	} {
		if err := k.announced(1000, more); (err == nil) != fits || k.memory.Usage().Used != 1000 {
			t.Errorf("%d more: %v", more, err)
		}
	}
}

// TestEventRate checks that endless events of one resource are rate limited and do not delay those
// of another resource. Waiting events end with the Group. Without a memory cap, there is no rate
// limit.
func TestEventRate(t *testing.T) {
	for _, bounded := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			busy, calm := &flooded{}, &flooded{}
			var b *MemoryCap
			if bounded {
				b = NewMemoryCap(1 << 30)
			}
			known := texts{}
			group := NewGroup(Options{Memory: b}, New(secrets(busy, texts{})), New(secrets(calm, known)))
			defer start(t, group, nil)()
			time.Sleep(time.Minute)
			synctest.Wait()

			began, sent := time.Now(), 0
			for ; sent < 50_000; sent++ {
				busy.events.event(watch.Modified, "2", labelled("same", ""))
			}
			took, want := time.Since(began), time.Duration(0)
			if bounded {
				want = (50_000 - eventBurst) * time.Second / eventRate
			}
			if took < want-time.Millisecond || took > want+time.Millisecond {
				t.Errorf("%d events are handled in %v instead of %v", sent, took, want)
			}
			at := time.Now()
			calm.events.event(watch.Added, "2", labelled("calm", "1"))
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if known["ns/calm"] != "1" || time.Since(at) > time.Millisecond {
				t.Errorf("the event of another resource was delayed")
			}
		})
	}
}
