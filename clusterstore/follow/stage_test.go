package follow

import (
	"fmt"
	"strings"
	"testing"
	"unique"

	corev1 "k8s.io/api/core/v1"
)

// sharingFeed is a feed that no Group runs, with a budget, whose objects share their label.
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

// TestStageRefused: a list that the budget refuses leaves charged what is kept, with what that shares with the list.
func TestStageRefused(t *testing.T) {
	f := sharingFeed(64 << 10)
	text := strings.Repeat("x", 40<<10)
	f.Update(labelled("a", text).object)
	before := f.kept.memory.Usage().Used
	f.beginList()
	staged, err := 0, error(nil)
	for ; err == nil && staged < 1000; staged++ {
		err = f.stageObject(f.compact(labelled(fmt.Sprint("n", staged), text).object, nil))
	}
	f.abandonList()
	if !isOver(err) || staged < 10 {
		t.Errorf("after %d objects: %v", staged, err)
	}
	if after := f.kept.memory.Usage().Used; after != before || before < 40<<10 ||
		f.kept.shared[unique.Make(text)].cached != 1 {
		t.Errorf("%d bytes are charged, and %d before", after, before)
	}
}

// TestStageAgain: an object that a list has again and again takes the room of one, and is charged
// each time, so that such a list ends. At its end it is charged once.
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
	if shared := len(f.kept.shared); shared > 1 {
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
	if used, want := f.kept.memory.Usage().Used, one(0).size+f.kept.sums.cachedShared; used != want ||
		len(f.kept.shared) != 1 {
		t.Errorf("%d bytes are charged at the end, not %d; shared: %v", used, want, f.kept.shared)
	}
}

// TestStageNothing: what a list has without end is over budget, also if nothing of it is kept.
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
	if f.abandonList(); f.kept.memory.Usage().Used != 0 {
		t.Errorf("%d bytes are charged", f.kept.memory.Usage().Used)
	}
}
