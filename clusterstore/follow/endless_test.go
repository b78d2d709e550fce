package follow

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// repeating is a Source whose lists have the same objects on every page, for ten minutes, and whose watches have one object once a second.
func repeating() *scripted {
	same := make([]item, 100)
	for i := range same {
		same[i] = labelled(fmt.Sprint("n", i), "x")
	}
	return &scripted{
		pause: time.Second,
		onList: func(o metav1.ListOptions) (meta metav1.ListMeta, _ []item, err error) {
			if len(o.Continue) > 600 {
				return meta, nil, errors.New("it has no end")
			}
			return metav1.ListMeta{ResourceVersion: "5", Continue: o.Continue + "x"}, same, nil
		},
		onEvents: func(_ metav1.ListOptions, w *scriptedEvents, _ int) {
			for time.Sleep(time.Second); w.event(watch.Added, "2", same[0]); time.Sleep(time.Second) {
			}
		},
	}
}

// TestRepeating: a list that has the same objects again and again soon is over budget. Where there is no budget it fails after some
// minutes, and before that the health has that it lasts.
func TestRepeating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := sharingFeed(1 << 20)
		f.kind.Source = repeating()
		f.resource.group.options.NoWatchList = true
		if _, err := f.resource.list(t.Context()); !isOver(err) {
			t.Errorf("with a budget: %v", err)
		}
		f.kept, f.resource.group.events = nil, nil
		for _, inPages := range []bool{false, true} {
			f.resource.group.options.NoWatchList = inPages
			began := time.Now()
			go func() {
				time.Sleep(slowList + 2*time.Second)
				if h := f.resource.group.Health().Resources[0]; h.Trouble != string(longList) {
					t.Errorf("a list is under way, and shown is %+v", h)
				}
			}()
			next := f.resource.once(t.Context(), listLater)
			if took := time.Since(began); next != listLater || took < maxListTime || took > maxListTime+listTimeout {
				t.Errorf("after %v: %v", took, next)
			}
			if h := f.resource.group.Health().Resources[0]; h.Err != errLongList.Error() {
				t.Errorf("%+v", h)
			}
			time.Sleep(2 * troublePause)
		}
	})
}
