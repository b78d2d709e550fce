package pace

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// testQueue is a queue of keys that begin with their tenant.
type testQueue struct{ *Queue[string] }

func newTestQueue(atOnce int) testQueue { return testQueue{NewQueue[string](atOnce)} }

func (q testQueue) push(key string) { q.Push(tenantOf(key), key) }

func tenantOf(key string) string {
	tenant, _, _ := strings.Cut(key, "/")
	return tenant
}

// TestForgotten: while one tenant always has work, the others that come and go leave
// nothing.
func TestForgotten(t *testing.T) {
	q := newTestQueue(1)
	q.push("busy/0")
	for i := range 10_000 {
		q.push("busy/0")
		key := fmt.Sprintf("n%d/0", i)
		q.push(key)
		for range 2 {
			tenant, _, _ := q.Pop()
			q.Done(tenant)
		}
	}
	if n := len(q.tenants) + len(q.turns); n > 10 {
		t.Errorf("%d are left", n)
	}
}

// TestQueueAgainstList: whatever happens, Len is 0 if and only if Pop has nothing, no
// key is lost or made up, a tenant's keys keep their order, and no tenant that may begin one is
// passed by another twice.
func TestQueueAgainstList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		atOnce := rapid.IntRange(1, 3).Draw(t, "atOnce")
		q := newTestQueue(atOnce)
		waiting, underWay := make(map[string][]string), make(map[string][]string)
		passed := make(map[string]map[string]int) // by tenant: how often others had a turn since it could begin a key
		for i := range rapid.IntRange(1, 200).Draw(t, "steps") {
			tenant := string(rune('a' + rapid.IntRange(0, 3).Draw(t, "tenant")))
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				key := fmt.Sprintf("%s/%d", tenant, i)
				q.push(key)
				waiting[tenant] = append(waiting[tenant], key)
			case 1:
				may := false
				for o, keys := range waiting {
					may = may || len(keys) > 0 && len(underWay[o]) < atOnce
				}
				some := q.Len() > 0
				o, key, ok := q.Pop()
				if ok != may || some != may {
					t.Fatalf("took %q: %v, Len above 0: %v, should be %v", key, ok, some, may)
				}
				if !ok {
					continue
				}
				if len(waiting[o]) == 0 || waiting[o][0] != key || len(underWay[o]) == atOnce {
					t.Fatalf("took %s while %v waits and %v is under way", key, waiting[o], underWay[o])
				}
				waiting[o], underWay[o] = waiting[o][1:], append(underWay[o], key)
				for other, keys := range waiting {
					if other == o || len(keys) == 0 || len(underWay[other]) == atOnce {
						delete(passed, other)
						continue
					}
					if passed[other] == nil {
						passed[other] = make(map[string]int)
					}
					if passed[other][o]++; passed[other][o] > 1 {
						t.Fatalf("%s had two turns while %s waited", o, other)
					}
				}
			case 2:
				if len(underWay[tenant]) == 0 {
					continue
				}
				underWay[tenant] = underWay[tenant][1:]
				q.Done(tenant)
			}
		}
	})
}
