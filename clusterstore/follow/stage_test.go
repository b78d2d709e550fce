package follow

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"isthmus/internal/adminapi"
)

// sharingFeed returns a feed outside of a Group. It has a memory cap, and its objects share their
// label.
func sharingFeed(limit int64) *feed[*corev1.Secret, unique.Handle[string]] {
	r := New(Kind[*corev1.Secret, unique.Handle[string]]{
		Name: "secrets", Into: Map[unique.Handle[string]]{}, Same: sameAs[unique.Handle[string]],
		Compact: func(o *corev1.Secret) (unique.Handle[string], bool) { return unique.Make(o.Labels["x"]), true },
		Size:    func(unique.Handle[string], string) int64 { return 64 },
		Shared: func(h unique.Handle[string], yield func(any, int64) bool) {
			yield(h, 256+int64(len(h.Value())))
		},
	})
	NewGroup(Options{Memory: NewMemoryCap(limit)}, r)
	return r.feed.(*feed[*corev1.Secret, unique.Handle[string]])
}

// TestStageRefused checks that a list over the memory cap does not change the counted size of the
// cache. The cache may share values with the list.
func TestStageRefused(t *testing.T) {
	f := sharingFeed(64 << 10)
	text := strings.Repeat("x", 40<<10)
	f.Update(labelled("a", text).object)
	before := f.account.memory.Usage().Used
	f.beginList()
	staged, err := 0, error(nil)
	for ; err == nil && staged < 1000; staged++ {
		err = f.stageObject(f.compact(labelled(fmt.Sprint("n", staged), text).object, nil))
	}
	f.abandonList()
	if !isOver(err) || staged < 10 {
		t.Errorf("after %d objects: %v", staged, err)
	}
	if after := f.account.memory.Usage().Used; after != before || before < 40<<10 ||
		f.account.shared[unique.Make(text)].cached != 1 {
		t.Errorf("%d bytes count after the list, and %d before", after, before)
	}
}

// TestStageAgain checks that a repeated object counts each time while it is listed, although it is
// stored once. Otherwise, a list that repeats an object would never end. At the end of a list, the
// object counts once.
func TestStageAgain(t *testing.T) {
	f := sharingFeed(64 << 10)
	f.beginList()
	one := func(i int) *compacted[unique.Handle[string]] {
		return f.compact(labelled("a", fmt.Sprint(i%2)).object, nil)
	}
	n, err := 0, error(nil)
	for ; err == nil && n < 10_000; n++ {
		err = f.stageObject(one(n))
	}
	if staged := len(f.stage.objects) + len(f.stage.same); staged > 1 || !isOver(err) || n < 100 {
		t.Errorf("%d objects are staged after %d events: %v", staged, n, err)
	}
	if shared := len(f.account.shared); shared > 1 {
		t.Errorf("%d values are shared", shared)
	}
	f.abandonList()
	f.beginList()
	for i := range 10 {
		if err := f.stageObject(one(i)); err != nil {
			t.Fatal(err)
		}
	}
	f.commit()
	if used, want := f.account.memory.Usage().Used, one(0).size+f.account.sums.cachedShared; used != want ||
		len(f.account.shared) != 1 {
		t.Errorf("%d bytes count at the end instead of %d; shared: %v", used, want, f.account.shared)
	}
}

// TestStageNothing checks that an endless list exceeds the memory cap even if none of its objects
// is cached.
func TestStageNothing(t *testing.T) {
	const limit = 64 << 10
	f := sharingFeed(limit)
	f.kind.Compact = func(*corev1.Secret) (h unique.Handle[string], ok bool) { return h, false }
	f.beginList()
	n, err := 0, error(nil)
	for ; err == nil && n < 4*limit/sameSize; n++ {
		err = f.stageObject(f.compact(secret("a"), nil))
	}
	if !isOver(err) {
		t.Errorf("after %d objects: %v", n, err)
	}
	if f.abandonList(); f.account.memory.Usage().Used != 0 {
		t.Errorf("%d bytes count", f.account.memory.Usage().Used)
	}
}

// TestOverBudget checks that the memory cap ends endless lists and events, and that cached objects
// stay. Lists are retried after a pause. Once the API behaves, its objects are listed and watched
// again.
func TestOverBudget(t *testing.T) {
	for _, needed := range []bool{false, true} {
		t.Run(fmt.Sprintf("needed=%v", needed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testOverBudget(t, needed) })
		})
	}
}

func testOverBudget(t *testing.T, needed bool) {
	f := &flooded{objects: 2}
	group, b := followFlooded(t, Options{}, needed, f)
	few := b.Usage().Used
	objects := func() int { return group.Health().Resources[0].Objects }
	if objects() != 2 || few < 2*textSize("", "") || few > 4*textSize("", "") {
		t.Fatalf("before the flood, %d objects, %d bytes", objects(), few)
	}
	expectOver := func(what string) {
		t.Helper()
		synctest.Wait()
		h := group.Health()
		if h.Err == nil || h.StaleSince.IsZero() ||
			!strings.Contains(h.Err.Error(), "over budget: the cache of secrets0 needs") {
			t.Fatalf("%s: %+v", what, h)
		}
		if used := b.Usage().Used; used > 64<<10 {
			t.Errorf("%s: %d bytes count", what, used)
		}
	}
	f.mu.Lock()
	lists := len(f.lists)
	f.objects, f.label = 1<<30, strings.Repeat("x", 1<<10)
	f.mu.Unlock()
	f.flood()
	expectOver("events")
	before := objects()
	if before < 30 || before > 60 {
		t.Errorf("%d objects are cached", before)
	}
	time.Sleep(10 * time.Minute)
	expectOver("lists")
	f.mu.Lock()
	if n := len(f.lists) - lists; n < 60 || n > 121 {
		t.Errorf("%d attempts in ten minutes", n)
	}
	f.objects, f.label = 2, ""
	f.mu.Unlock()
	if objects() != before {
		t.Errorf("%d objects of %d are still cached", objects(), before)
	}
	time.Sleep(maxOverPause + 10*time.Second)
	synctest.Wait()
	if h := group.Health(); h.Err != nil || !h.StaleSince.IsZero() || objects() != 2 || b.Usage().Used != few {
		t.Errorf("afterwards: %+v, %+v", h, b.Usage())
	}
}

// TestStaged checks which memory counts during a list. It is the larger of cache and list, and the
// staged part of the list. Unchanged objects take hardly any staged memory. A list of entirely new
// objects fits if it fits alone.
func TestStaged(t *testing.T) {
	b := NewMemoryCap(4000)
	r := New(secrets(nil, texts{}))
	NewGroup(Options{Memory: b}, r)
	f := secretsFeed(r)
	list := func(x string) (counted, staged int64) {
		f.beginList()
		for i := range 10 {
			if err := f.stageObject(f.compact(labelled(fmt.Sprint("n", i), x).object, nil)); err != nil {
				t.Fatal(err)
			}
		}
		counted, staged = b.counted, b.staged
		f.commit()
		return counted, staged
	}
	one := objectSize + int64(len("ns/n0")) + textSize("x1", "")
	for i, want := range []int64{10 * one, 10 * sameSize, 10 * one} {
		x := "x1"
		if i == 2 {
			x = "x2"
		}
		counted, staged := list(x)
		if counted != 10*one || staged != want {
			t.Errorf("list %d: %d bytes count, and %d are staged; want %d and %d", i, counted, staged, 10*one, want)
		}
		if b.counted != 10*one || b.staged != 0 {
			t.Errorf("after list %d: %d bytes count, and %d are staged; want %d", i, b.counted, b.staged, 10*one)
		}
	}
	f.beginList()
	_ = f.stageObject(f.compact(labelled("n0", "other").object, nil))
	f.abandonList()
	if used := b.Usage().Used; used != 10*one || r.objects.Load() != 10 {
		t.Errorf("after a list that has failed: %d bytes, %d objects", used, r.objects.Load())
	}
}

// TestMemoryCap checks that neither figure exceeds the cap. add rejects nothing that fits, and
// memory can always be released.
func TestMemoryCap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, 200).Draw(t, "limit")
		m := NewMemoryCap(limit)
		for range rapid.IntRange(1, 100).Draw(t, "changes") {
			counted, staged := m.counted, m.staged
			more := rapid.Int64Range(-counted, 2*limit).Draw(t, "counted")
			beside := rapid.Int64Range(-staged, 2*limit).Draw(t, "staged")
			fits := m.fits(more, "pods") == nil
			err := m.add(more, beside, "pods")
			if over := counted+more > limit || staged+beside > limit; over != (err != nil) {
				t.Fatalf("%d and %d more than %d and %d of %d: %v", more, beside, counted, staged, limit, err)
			}
			if fits != (counted+more <= limit) {
				t.Fatalf("%d more than %d of %d: fits is %v", more, counted, limit, fits)
			}
			if err == nil {
				counted, staged = counted+more, staged+beside
			} else if !errors.Is(err, ErrOverBudget) {
				t.Fatal(err)
			}
			if m.counted != counted || m.staged != staged {
				t.Fatalf("%d and %d, want %d and %d", m.counted, m.staged, counted, staged)
			}
		}
	})
}

// TestMemoryCapErrors checks that an error says which resource needs how much more memory.
func TestMemoryCapErrors(t *testing.T) {
	m := NewMemoryCap(64 << 20)
	if err := m.add(60<<20, 63<<20, "pods"); err != nil {
		t.Fatal(err)
	}
	for want, err := range map[string]error{
		"over budget: the cache of pods needs 5.0 MiB more memory, but 60.0 MiB of the " +
			"memory cap of 64.0 MiB is already in use": m.add(5<<20, 0, "pods"),
		"over budget: a list of pods needs 1.5 MiB more memory, " +
			"but the lists in progress already use 63.0 MiB of the " +
			"memory cap of 64.0 MiB": m.add(0, 3<<19, "pods"),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if got := NewMemoryCap(0).Usage(); got != (adminapi.Memory{}) {
		t.Errorf("without a cap: %+v", got)
	}
}

// modelObject is an object of a model. It has a size and shares values with other objects.
type modelObject struct {
	size   int64
	shared []int
}

// handles returns the shared values. The size of a value is a thousand times its number.
func (o modelObject) handles() handles {
	return func(yield func(any, int64) bool) {
		for _, n := range o.shared {
			if !yield(n, int64(1000*n)) {
				return
			}
		}
	}
}

// total returns the memory that objects take, and their shared values, which count once.
func total(objects map[string]modelObject) (bytes int64, shared map[int]bool) {
	shared = make(map[int]bool)
	for _, o := range objects {
		bytes += o.size
		for _, n := range o.shared {
			shared[n] = true
		}
	}
	return bytes, shared
}

func sizeOfShared(all map[int]bool) (bytes int64) {
	for n := range all {
		bytes += shareSize + int64(1000*n)
	}
	return bytes
}

// TestKept compares the counted memory of a resource with a model. The model counts the larger of
// cache and current list, and the memory of the list beside the cache. Shared values count once in
// each. A rejected change has no effect.
func TestKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1000, 100_000).Draw(t, "limit")
		k := newAccount(NewMemoryCap(limit), "pods", newPrints())
		cached, listed := map[string]modelObject{}, map[string]modelObject{}
		extra, same := int64(0), int64(0) // listed but not cached afterwards; listed without a change

		object := func(t *rapid.T) modelObject {
			return modelObject{
				size:   rapid.Int64Range(1, 2000).Draw(t, "size"),
				shared: rapid.SliceOfN(rapid.IntRange(1, 5), 0, 3).Draw(t, "shared"),
			}
		}
		key := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"})
		fresh := func(t *rapid.T) string { // a key that the list does not have
			name := key.Draw(t, "key")
			if _, ok := listed[name]; ok {
				t.Skip("the object is in the list")
			}
			return name
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				if len(listed) > 0 {
					t.Skip("a list is being read")
				}
				name, o := key.Draw(t, "key"), object(t)
				if k.put(name, o.size, o.handles(), cached[name].handles()) == nil {
					cached[name] = o
				}
			},
			"drop": func(t *rapid.T) {
				name := key.Draw(t, "key")
				if _, ok := cached[name]; !ok || len(listed) > 0 {
					t.Skip("the object is not cached")
				}
				k.drop(name, cached[name].handles())
				delete(cached, name)
			},
			"stage": func(t *rapid.T) {
				name, o := fresh(t), object(t)
				if k.stage(o.size, o.handles()) == nil {
					listed[name] = o
				}
			},
			"stage as it is": func(t *rapid.T) {
				name := fresh(t)
				o, ok := cached[name]
				if !ok {
					t.Skip("the object is not cached")
				}
				if k.stageSame(name, o.handles()) == nil {
					listed[name] = o
					same += o.size - sameSize
				}
			},
			"stage none": func(*rapid.T) {
				if k.stageNone() == nil {
					extra += sameSize
				}
			},
			"abandon": func(*rapid.T) {
				k.unstageAll()
				clear(listed)
				extra, same = 0, 0
			},
			"commit": func(t *rapid.T) {
				fits := func() {
					t.Helper()
					if k.memory.counted > limit { // otherwise, events of other resources would be rejected meanwhile
						t.Fatalf("%d exceed %d while a list replaces the cache", k.memory.counted, limit)
					}
				}
				k.commit()
				for name, o := range listed {
					k.keep(name, o.size, o.handles(), cached[name].handles())
					fits()
				}
				for name, o := range cached {
					if _, ok := listed[name]; !ok {
						k.drop(name, o.handles())
						fits()
					}
				}
				k.unstageAll()
				cached = maps.Clone(listed)
				clear(listed)
				extra, same = 0, 0
			},
			"": func(t *rapid.T) {
				inCache, sharedInCache := total(cached)
				inList, sharedInList := total(listed)
				counted := max(inCache+sizeOfShared(sharedInCache), inList+sizeOfShared(sharedInList))
				maps.DeleteFunc(sharedInList, func(n int, _ bool) bool { return sharedInCache[n] })
				staged := inList - same + extra + sizeOfShared(sharedInList)
				if k.memory.counted != counted || k.memory.staged != staged {
					t.Fatalf("%d counted, %d staged; want %d and %d",
						k.memory.counted, k.memory.staged, counted, staged)
				}
				if counted > limit || staged > limit {
					t.Fatalf("%d and %d exceed %d", counted, staged, limit)
				}
				if len(cached)+len(listed) == 0 && len(k.shared)+len(k.sizes) > 0 {
					t.Fatalf("shared values %v and sizes %v are left", k.shared, k.sizes)
				}
			},
		})
	})
}
