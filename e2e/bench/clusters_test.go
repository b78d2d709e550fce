package bench

import "testing"

func TestLock(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock(dir); err == nil {
		t.Error("locked twice")
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	if unlock, err = lock(dir); err != nil {
		t.Fatal(err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
}
