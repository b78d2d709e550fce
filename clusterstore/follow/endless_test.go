package follow

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"isthmus/clusterstore/decode"
	"isthmus/internal/sleep"
)

// repeating is a Source whose lists have the same objects on every page, for ten minutes.
type repeating struct{ pages int }

func (r *repeating) List(ctx context.Context, o metav1.ListOptions, each func(*corev1.Secret, *decode.Refused) error) (metav1.ListMeta, error) {
	r.pages++
	sleep.For(ctx, time.Second)
	if len(o.Continue) > 600 {
		return metav1.ListMeta{}, errors.New("it has no end")
	}
	for i := range 100 {
		if err := each(labelled(fmt.Sprint("n", i), "x").object, nil); err != nil {
			return metav1.ListMeta{}, err
		}
	}
	return metav1.ListMeta{ResourceVersion: "5", Continue: o.Continue + "x"}, nil
}

func (r *repeating) Watch(ctx context.Context, _ metav1.ListOptions) (decode.Events[*corev1.Secret], error) {
	ctx, stop := context.WithCancel(ctx)
	return &repeatingEvents{ctx, stop}, nil
}

// repeatingEvents are of one object, one a second.
type repeatingEvents struct {
	ctx  context.Context
	stop context.CancelFunc
}

func (r *repeatingEvents) Next(each func(decode.Event[*corev1.Secret]) error) error {
	if !sleep.For(r.ctx, time.Second) {
		return r.ctx.Err()
	}
	return each(decode.Event[*corev1.Secret]{Type: watch.Added, Object: labelled("n", "x").object})
}

func (r *repeatingEvents) Close() error { r.stop(); return nil }

// TestRepeating: a list that has the same objects again and again soon is over budget. Where there is no budget it fails after some
// minutes, and before that the health has that it lasts. A check ends once that is more than it knows by far.
func TestRepeating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := sharingFeed(1 << 20)
		from := &repeating{}
		f.kind.Source = from
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
		from.pages, f.whole = 0, true
		if again := f.checkDrift(t.Context()); !again || from.pages > unknownObjects/100+2 {
			t.Errorf("a check reads %d pages; %v", from.pages, again)
		}
	})
}
