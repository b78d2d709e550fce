package proc

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

func TestParseField(t *testing.T) {
	const text = "55d316b73000-7ffcdd362000 ---p 00000000 00:00 0 [rollup]\nRss:                3912 kB\nPss:                 871 kB\nPss_Dirty: 589 kB\n"
	if n, err := parseField(text, "Pss"); err != nil || n != 871<<10 {
		t.Errorf("%d, %v", n, err)
	}
	for _, wrong := range []string{"", "VmRss: 1 kB\n", "Rss: 1 MB\n", "Rss: x kB\n", "Rss: -1 kB\n", "Rss: 1\n"} {
		if n, err := parseField(wrong, "Rss"); err == nil {
			t.Errorf("%q is %d", wrong, n)
		}
	}
}

func TestOwnProcess(t *testing.T) {
	before, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	after := before
	for began := time.Now(); err == nil && after == before && time.Since(began) < time.Minute; after, err = CPU(os.Getpid()) {
		for range 1000 { // what others leave of the machine may be little
			_ = strings.Repeat("x", 1000)
		}
	}
	if err != nil || after <= before || after > time.Hour {
		t.Errorf("%v and, after some work, %v: %v", before, after, err)
	}
	m, err := ReadMemory(os.Getpid())
	if err != nil || m.RSS < 1<<20 || m.RSS > 1<<40 {
		t.Errorf("memory %+v, %v", m, err)
	}
}

// TestResetPeak: the peak is what there has been since it was reset.
func TestResetPeak(t *testing.T) {
	const size = 256 << 20
	taken := make([]byte, size)
	for i := range taken {
		taken[i] = 1
	}
	high, err := Peak(os.Getpid())
	if err != nil || high < size {
		t.Fatalf("%d bytes at most, %v", high, err)
	}
	runtime.KeepAlive(taken)
	debug.FreeOSMemory()
	if err := ResetPeak(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	if low, err := Peak(os.Getpid()); err != nil || low > high-size/2 {
		t.Errorf("%d bytes at most, %d before, %v", low, high, err)
	}
}

func TestNoProcess(t *testing.T) {
	const none = 1 << 23 // beyond what Linux gives out
	if d, err := CPU(none); err == nil {
		t.Error(d)
	}
	if m, err := ReadMemory(none); err == nil {
		t.Error(m)
	}
	if err := ResetPeak(none); err == nil {
		t.Error("a peak has been reset")
	}
}
