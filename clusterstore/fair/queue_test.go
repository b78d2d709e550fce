package fair

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func newTestQueue(atOnce int) *Queue[string] {
	return NewQueue(atOnce, func(key string) string { owner, _, _ := strings.Cut(key, "/"); return owner })
}

// handle takes n keys, each of which takes so long by its owner, and returns them.
func handle(q *Queue[string], n int, took map[string]time.Duration) (keys []string) {
	for range n {
		key, ok := q.Pop()
		if !ok {
			break
		}
		keys = append(keys, key)
		q.Done(key, took[q.ownerOf(key)])
	}
	return keys
}

// TestInTurn: while all take the same time, owners are served by turns, and each owner's
// keys in their order.
func TestInTurn(t *testing.T) {
	q := newTestQueue(1)
	for _, key := range []string{"a/1", "a/2", "a/3", "b/1", "a/4", "c/1", "b/2"} {
		q.Push(key)
	}
	if got := strings.Join(handle(q, 10, nil), " "); got != "a/1 b/1 c/1 a/2 b/2 a/3 a/4" {
		t.Errorf("order %s", got)
	}
	if q.Len() != 0 || len(q.owners)+len(q.turns) > 0 {
		t.Errorf("%d keys, %d owners, %d turns are left", q.Len(), len(q.owners), len(q.turns))
	}
}

// TestByTime: who takes long waits for those who do not, however many keys they have.
func TestByTime(t *testing.T) {
	q := newTestQueue(1)
	took := map[string]time.Duration{"slow": time.Second, "quick": time.Millisecond}
	q.Push("slow/0")
	q.Push("slow/1")
	handle(q, 1, took)
	for i := range 100 {
		q.Push(fmt.Sprintf("quick/%d", i))
	}
	q.Push("slow/2")
	if got := handle(q, 102, took); slices.Index(got, "slow/1") != 100 || slices.Index(got, "slow/2") != 101 {
		t.Errorf("order %v", got)
	}
}

// TestNoCredit: who has had no work for long does not get all turns when some comes.
func TestNoCredit(t *testing.T) {
	q := newTestQueue(1)
	took := map[string]time.Duration{"old": time.Second, "new": time.Second}
	for i := range 100 {
		q.Push(fmt.Sprintf("old/%d", i))
	}
	handle(q, 50, took)
	for i := range 20 {
		q.Push(fmt.Sprintf("new/%d", i))
	}
	n := 0
	for _, key := range handle(q, 20, took) {
		if strings.HasPrefix(key, "new") {
			n++
		}
	}
	if n < 9 || n > 11 {
		t.Errorf("%d of 20 turns", n)
	}
}

// TestAtOnce: no owner has more keys under way than it may, and the others do not wait
// for it.
func TestAtOnce(t *testing.T) {
	q := newTestQueue(2)
	for _, key := range []string{"a/1", "a/2", "a/3", "b/1"} {
		q.Push(key)
	}
	var got []string
	for range 4 {
		if key, ok := q.Pop(); ok {
			got = append(got, key)
		}
	}
	if fmt.Sprint(got) != "[a/1 b/1 a/2]" || q.Len() != 0 {
		t.Errorf("took %v, left %d", got, q.Len())
	}
	q.Done("a/2", 0)
	if key, ok := q.Pop(); key != "a/3" || !ok {
		t.Errorf("took %s", key)
	}
}

// TestForgotten: while one owner always has work, the others that come and go leave
// nothing.
func TestForgotten(t *testing.T) {
	q := newTestQueue(1)
	q.Push("busy/0")
	for i := range 10_000 {
		q.Push("busy/0")
		key := fmt.Sprintf("n%d/0", i)
		q.Push(key)
		for range 2 {
			key, _ := q.Pop()
			q.Done(key, time.Millisecond)
		}
	}
	if n := len(q.owners) + len(q.turns); n > 10 {
		t.Errorf("%d are left", n)
	}
}

// TestQueueAgainstList: whatever happens, Len is 0 if and only if Pop has nothing, no
// key is lost or made up, and an owner's keys keep their order.
func TestQueueAgainstList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		atOnce := rapid.IntRange(1, 3).Draw(t, "atOnce")
		q := newTestQueue(atOnce)
		waiting, underWay := make(map[string][]string), make(map[string][]string)
		for i := range rapid.IntRange(1, 200).Draw(t, "steps") {
			owner := string(rune('a' + rapid.IntRange(0, 3).Draw(t, "owner")))
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				key := fmt.Sprintf("%s/%d", owner, i)
				q.Push(key)
				waiting[owner] = append(waiting[owner], key)
			case 1:
				may := false
				for o, keys := range waiting {
					may = may || len(keys) > 0 && len(underWay[o]) < atOnce
				}
				some := q.Len() > 0
				key, ok := q.Pop()
				if ok != may || some != may {
					t.Fatalf("took %q: %v, Len above 0: %v, should be %v", key, ok, some, may)
				}
				if !ok {
					continue
				}
				o := q.ownerOf(key)
				if len(waiting[o]) == 0 || waiting[o][0] != key || len(underWay[o]) == atOnce {
					t.Fatalf("took %s while %v waits and %v is under way", key, waiting[o], underWay[o])
				}
				waiting[o], underWay[o] = waiting[o][1:], append(underWay[o], key)
			case 2:
				if len(underWay[owner]) == 0 {
					continue
				}
				key := underWay[owner][0]
				underWay[owner] = underWay[owner][1:]
				q.Done(key, time.Duration(rapid.IntRange(-1, 5).Draw(t, "took")))
			}
		}
	})
}
