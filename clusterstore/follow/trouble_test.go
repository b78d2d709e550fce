package follow

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestTroubleAgain tests that a trouble is logged once until it has been over for troublePause,
// also while the server has another trouble all the time.
func TestTroubleAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x trouble
		logged := func(c cause) bool { return x.add(c, string(c)) }
		if !logged(longList) || logged(longList) {
			t.Error("a trouble is not logged once")
		}
		if !logged(silentWatch) || logged(silentWatch) {
			t.Error("another trouble is not logged once")
		}
		for range 3 {
			time.Sleep(troublePause - time.Second)
			if logged(longList) {
				t.Error("a trouble that lasts is logged again")
			}
		}
		if !logged(silentWatch) || logged(silentWatch) || x.now() != string(silentWatch) {
			t.Error("a trouble that was over is not logged once")
		}
		time.Sleep(troublePause + time.Second)
		if x.now() != "" || !logged(longList) {
			t.Error("after all were over, a trouble is not logged")
		}
	})
}
