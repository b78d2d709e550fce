package follow

import (
	"errors"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"isthmus/internal/adminapi"
)

// TestMemoryCap checks that neither figure exceeds the cap, that add refuses nothing else, and that bytes can always
// be given back.
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

// TestMemoryCapErrors checks that an error says what would take how much more.
func TestMemoryCapErrors(t *testing.T) {
	m := NewMemoryCap(64 << 20)
	if err := m.add(60<<20, 63<<20, "pods"); err != nil {
		t.Fatal(err)
	}
	for want, err := range map[string]error{
		"over budget: the cache of pods would take 5.0 MiB more, and 60.0 MiB of the " +
			"memory cap of 64.0 MiB are used": m.add(5<<20, 0, "pods"),
		"over budget: a list of pods would take 1.5 MiB more, and lists that are being read use 63.0 MiB of the " +
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

// modelObject is an object of a model: its size, and the values that it shares with others.
type modelObject struct {
	size   int64
	shared []int
}

// handles has shared values whose size is a thousand times their number.
func (o modelObject) handles() handles {
	return func(yield func(any, int64) bool) {
		for _, n := range o.shared {
			if !yield(n, int64(1000*n)) {
				return
			}
		}
	}
}

// total returns what objects take, with shared values once, and those values.
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

// TestKept compares what counts of a resource with a model: the larger of the cache and the list that is being read,
// and what the list has beside the cache, with shared values once in each. Whatever the cap refuses changes nothing.
func TestKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1000, 100_000).Draw(t, "limit")
		k := newKept(NewMemoryCap(limit), "pods", newPrints())
		cached, listed := map[string]modelObject{}, map[string]modelObject{}
		extra, same := int64(0), int64(0) // listed without being cached afterwards; listed as they are cached

		object := func(t *rapid.T) modelObject {
			return modelObject{
				size:   rapid.Int64Range(1, 2000).Draw(t, "size"),
				shared: rapid.SliceOfN(rapid.IntRange(1, 5), 0, 3).Draw(t, "shared"),
			}
		}
		key := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"})
		fresh := func(t *rapid.T) string { // a key that is not in the list
			name := key.Draw(t, "key")
			if _, ok := listed[name]; ok {
				t.Skip("it is in the list")
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
					t.Skip("it is not cached")
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
					t.Skip("it is not cached")
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
					if k.memory.counted > limit { // or events of other resources would be refused meanwhile
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
					t.Fatalf("%v and %v are left", k.shared, k.sizes)
				}
			},
		})
	})
}
