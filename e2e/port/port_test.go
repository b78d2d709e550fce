package port

import (
	"net"
	"testing"
)

func TestReserve(t *testing.T) {
	const first, last = 9000, 9001
	a, err := Reserve(first, last)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Reserve(first, last)
	if err != nil {
		t.Fatal(err)
	}
	if a.Addr() == b.Addr() {
		t.Errorf("%s is reserved twice", a.Addr())
	}
	if c, err := Reserve(first, last); err == nil {
		t.Errorf("%s was free, although two of two are reserved", c.Addr())
	}
	l, err := net.Listen("tcp", a.Addr())
	if err != nil {
		t.Errorf("who has reserved a port cannot listen on it: %v", err)
	} else if err := l.Close(); err != nil {
		t.Error(err)
	}
	for _, p := range []*Port{a, a, nil} {
		if err := p.Release(); err != nil {
			t.Error(err)
		}
	}
	again, err := Reserve(first, last)
	if err != nil || again.Addr() != a.Addr() {
		t.Fatalf("%v, %v: a port that was released is not free", again, err)
	}
	if err := again.Release(); err != nil {
		t.Error(err)
	}
	taken, err := net.Listen("tcp", a.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if p, err := Reserve(first, last); err == nil {
		t.Errorf("%s was free, although a server listens on the only one that is not reserved", p.Addr())
	}
	if err := b.Release(); err != nil {
		t.Error(err)
	}
}
