package follow

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// repeating is a Source whose lists have the same objects on every page, for ten minutes.
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
	}
}

// TestRepeating: a list that has the same objects again and again soon is over budget. Where there is no budget it fails after some
// minutes, and before that the health has that it lasts.
func TestRepeating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := sharingFeed(1 << 20)
		f.kind.Source = repeating()
		if err := f.resource.list(t.Context()); !isOver(err) {
			t.Errorf("with a budget: %v", err)
		}
		f.kept, f.resource.group.events = nil, nil
		began := time.Now()
		go func() {
			time.Sleep(slowList + 2*time.Second)
			if h := f.resource.group.Health().Resources[0]; h.Trouble != string(longList) {
				t.Errorf("a list is under way, and shown is %+v", h)
			}
		}()
		next := f.resource.listAndWatch(t.Context(), toList)
		if took := time.Since(began); next != toList || took < maxListTime || took > maxListTime+pageTimeout {
			t.Errorf("after %v: %v", took, next)
		}
		if h := f.resource.group.Health().Resources[0]; h.Err != errLongList.Error() {
			t.Errorf("%+v", h)
		}
	})
}
