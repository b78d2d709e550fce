package federation

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// fuse panics once, at the left-th call of burn during an update. If left is zero, a fuse never
// panics.
type fuse struct {
	left    int
	updates int // number of running updates
}

func (f *fuse) burn() {
	if f == nil || f.left == 0 || f.updates == 0 {
		return
	}
	if f.left--; f.left == 0 {
		panic(f)
	}
}

// supervisor is an Options.Supervise that retries when the test calls retry.
type supervisor struct {
	fuse   *fuse
	panics int
	again  map[ServiceID]func()
}

func (s *supervisor) supervise(id ServiceID, _ any, update, again func()) {
	s.fuse.updates++
	defer func() {
		s.fuse.updates--
		if reason := recover(); reason != nil {
			if reason != s.fuse {
				panic(reason)
			}
			s.panics++
			s.again[id] = again
		}
	}()
	update()
}

// retry runs all pending retries.
func (s *supervisor) retry() {
	due := s.again
	s.again = make(map[ServiceID]func())
	for _, again := range due {
		again()
	}
}

// panickyModel is a model whose sources, clock and reports sometimes panic.
type panickyModel struct {
	*model
	*supervisor
}

func newPanickyModel(t *rapid.T, steered bool) panickyModel {
	m := panickyModel{model: newModel(t, steered)}
	m.supervisor = &supervisor{fuse: &m.model.fuse, again: make(map[ServiceID]func())}
	m.table.opts.Supervise = m.supervise
	return m
}

// during calls do while one call from the table may panic. during checks the clients' sets until
// the retry, and then retries.
func (m panickyModel) during(t *rapid.T, do func(*rapid.T)) {
	before := make(map[string]*Set)
	for name, x := range m.watches {
		before[name], _ = x.w.Get()
	}
	m.supervisor.fuse.left = rapid.IntRange(0, 15).Draw(t, "until a panic")
	do(t)
	m.supervisor.fuse.left = 0
	meanwhile := make(map[string]*Set)
	for name, x := range m.watches {
		meanwhile[name], _ = x.w.Get()
	}
	m.describe()
	m.retry()
	if len(m.again) > 0 {
		t.Fatal("the retry of a service panicked")
	}
	for name, old := range before {
		if x := m.watches[name]; x == nil || meanwhile[name] == nil {
			continue
		}
		now, _ := m.watches[name].w.Get()
		if got := meanwhile[name]; got != old && got != now && !m.steered {
			t.Fatalf("%s: until the retry, the set is neither the old one nor the new one", name)
		}
	}
	for _, s := range m.table.watched.all {
		if s.broken {
			t.Fatalf("%v is still broken", s.id)
		}
	}
}

// describe calls every function that describes services, which may be broken.
func (m panickyModel) describe() {
	m.table.Watched()
	m.table.Steered(true)
	m.table.Unserved()
	for name, k := range m.keys {
		if m.watches[name] != nil {
			m.table.Explain(context.Background(), Question{Key: k, Limit: 10})
		}
	}
	_, _ = m.table.Impact(context.Background(), "east", Withdrawn)
}

// watchAgain replaces a watch. If the table panics, the second attempt must not.
func (m panickyModel) watchAgain(t *rapid.T) {
	name := rapid.SampledFrom([]string{"u", "v", "w", "x"}).Draw(t, "name")
	if old := m.watches[name]; old != nil {
		old.w.Close()
		delete(m.watches, name)
		delete(m.keys, name)
	}
	k := Key{drawService.Draw(t, "id"), uint16(rapid.IntRange(80, 81).Draw(t, "port")), Client{
		Zone:     rapid.SampledFrom([]string{"", "z1", "z2"}).Draw(t, "zone"),
		Instance: rapid.SampledFrom([]string{"", "", "h1"}).Draw(t, "instance"),
	}}
	watch := func() (w *Watch[*Set]) {
		m.supervisor.fuse.updates++
		defer func() {
			m.supervisor.fuse.updates--
			if reason := recover(); reason != nil && reason != m.supervisor.fuse {
				panic(reason)
			}
		}()
		return m.table.Watch(k)
	}
	w := watch()
	for w == nil {
		m.supervisor.fuse.left = 0
		w = watch()
	}
	m.keys[name], m.watches[name] = k, &watched{w: w}
}

func (m panickyModel) actions() map[string]func(*rapid.T) {
	all := map[string]func(*rapid.T){
		"write": m.write, "define": m.define, "link": m.link, "watch": m.watchAgain, "pass": m.passTime,
		"undefine": func(t *rapid.T) {
			id := drawService.Draw(t, "id")
			delete(m.defs, id)
			m.table.Define(id, nil)
		},
		"own": func(t *rapid.T) {
			addr := rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.3", "fd00::1"}).Draw(t, "address")
			m.cluster(Local).own(m.table, addr, rapid.SampledFrom([]string{"", "Pod p", "Pod q"}).Draw(t, "owner"))
		},
		"close": func(t *rapid.T) {
			name := rapid.SampledFrom([]string{"u", "v", "w", "x"}).Draw(t, "name")
			if x := m.watches[name]; x != nil {
				x.w.Close()
				delete(m.watches, name)
				delete(m.keys, name)
			}
		},
	}
	for name, do := range all {
		all[name] = func(t *rapid.T) { m.during(t, do) }
	}
	return all
}

// passTime advances the clock by a minute, in steps of ten seconds.
func (m panickyModel) passTime(*rapid.T) {
	for range 6 {
		m.now = m.now.Add(10 * time.Second)
		m.table.Tick()
	}
}

// end closes all watches, and checks that the table releases everything.
func (m panickyModel) end(t *rapid.T) {
	for _, x := range m.watches {
		x.w.Close()
	}
	m.checkReleased(t)
}

// TestPanics checks recovery from a panic in a source, a report or the clock. The call returns, and
// clients keep their sets until the retry. After the retry, the sets and the counts of the table
// are right.
func TestPanics(t *testing.T) {
	panics := 0
	rapid.Check(t, func(t *rapid.T) {
		m := newPanickyModel(t, false)
		actions := m.actions()
		actions[""] = m.checkNow
		t.Repeat(actions)
		m.end(t)
		panics += m.panics
	})
	if panics == 0 {
		t.Error("nothing panicked")
	}
}

// TestPanicsOfSteered is like TestPanics, for steered services. The sets of clients of steered
// services depend on past changes. Once no gradual change is in progress, the test compares the
// sets with those of a new table.
func TestPanicsOfSteered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newPanickyModel(t, true)
		actions := m.actions()
		actions[""] = func(t *rapid.T) { checkFailingBack(t, m.table) }
		t.Repeat(actions)
		m.passTime(t)
		m.checkNow(t)
		m.end(t)
	})
}

// TestWatchedAnewAfterPanic checks that a service that is watched again is supervised separately
// from its earlier watch.
func TestWatchedAnewAfterPanic(t *testing.T) {
	var last any
	table := NewTable(Options{Supervise: func(_ ServiceID, of any, update, _ func()) {
		last = of
		update()
	}})
	id := ServiceID{Namespace: "shop", Name: "web"}
	watch := func(d *Definition) any {
		w := table.Watch(Key{Service: id, Port: 80})
		defer w.Close()
		table.Define(id, d)
		return last
	}
	first, second := watch(&Definition{}), watch(nil)
	if first == nil || first == second {
		t.Errorf("updated %v and then %v", first, second)
	}
}

// checkNow compares all watches with those of a new table.
func (m panickyModel) checkNow(t *rapid.T) {
	fresh := NewTable(Options{IPv6: m.ipv6, Now: func() time.Time { return m.now }})
	for c, l := range m.links {
		l.CordonOver = 0
		fresh.SetLink(c, l)
	}
	for id, d := range m.defs {
		fresh.Define(id, d)
	}
	for _, name := range slices.Sorted(maps.Keys(m.watches)) {
		w := fresh.Watch(m.keys[name])
		want, _ := w.Get()
		now, _ := m.watches[name].w.Get()
		differ := now.Exists != want.Exists || now.Complete != want.Complete ||
			now.ByNode != want.ByNode || now.Reason != want.Reason
		if differ {
			t.Fatalf("%s: %+v, want %+v", name, now, want)
		}
		if !slices.EqualFunc(now.Endpoints, want.Endpoints, (*Endpoint).Equal) {
			t.Fatalf("%s: endpoints %v, want %v", name, text(now.Endpoints), text(want.Endpoints))
		}
		w.Close()
	}
	m.checkOffered(t)
}

// checkOffered checks that the table counts exactly the addresses that linked clusters offer.
func (m panickyModel) checkOffered(t *rapid.T) {
	want := make(map[string]int)
	for _, s := range m.table.watched.all {
		for _, p := range s.ports {
			for _, c := range p.members {
				for _, l := range c.raw {
					for _, e := range l.Endpoints {
						if c.member.Cluster != Local {
							want[e.Addr.Addr().String()+" "+s.id.String()]++
						}
					}
				}
			}
		}
	}
	got := make(map[string]int)
	count := func(a string, uses ...addrUse) {
		for _, u := range uses {
			got[a+" "+m.table.numbered[u.service].id.String()] += int(u.count)
		}
	}
	for a, u := range m.table.offered.v4.first {
		count(netip.AddrFrom4(a).String(), append(slices.Clone(m.table.offered.v4.more[a]), u)...)
	}
	for a, u := range m.table.offered.v6.first {
		count(netip.AddrFrom16(a).String(), append(slices.Clone(m.table.offered.v6.more[a]), u)...)
	}
	if !maps.Equal(got, want) {
		t.Fatalf("addresses are counted as offered %v, want %v", got, want)
	}
}
