package federation

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestScripts runs the scripts in testdata/table. The output of a script shows every published set
// as the step from the previous set. The commands are:
//
//	cluster NAME SERVICE [state=missing|external] [node-local]
//	   then one line per slice: NAME ENDPOINT...; endpoints after `unready` are not ready;
//	   ADDRESS==VERDICT is omitted by the source
//	define SERVICE [federated] MEMBER...          SERVICE@CLUSTER, or SERVICE for the local cluster
//	   [prefer=(TIER, ...)] [min-ready=] [return-after=] [return-over=]
//	undefine SERVICE
//	link CLUSTER [pending|unreachable]            default: ready, as `cluster` wrote it; `fresh`: as a new source
//	   [region=] [cordon=STANDING] [cordon-over=] [lost=STANDING]
//	unlink CLUSTER
//	watch NAME SERVICE [zone=] [node=] [instance=]
//	close NAME
//	key SERVICE [zone=] [node=]
//	unserved
//	watched
//	tick DURATION                                 advance the clock, and call Tick whenever it is due
//	explain SERVICE [zone=] [node=] [instance=] [address=] [most=]   print the verdict on each address
//	tiers                                         print the tiers in use
//
// Behaviours: E-22, C-10, C-11.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/table", func(t *testing.T, path string) {
		w := newWorld(Options{IPv6: strings.Contains(path, "ipv6")})
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			w.out.Reset()
			if err := w.run(d); err != nil {
				d.Fatalf(t, "%v", err)
			}
			w.printSteps()
			return w.out.String()
		})
		w.closeAll(t)
	})
}

type world struct {
	table    *Table
	clusters map[ClusterName]*cluster
	watches  map[string]*watched
	now      time.Time // clock of the table
	start    time.Time
	out      bytes.Buffer
	fuse     fuse // for everything that the table calls
}

type watched struct {
	w    *Watch[*Set]
	last *Set
}

func newWorld(o Options) *world {
	w := &world{clusters: make(map[ClusterName]*cluster), watches: make(map[string]*watched)}
	w.start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	w.now = w.start
	o.Now = func() time.Time {
		w.fuse.burn()
		return w.now
	}
	o.ReportTiers = func(c TierChange) {
		w.fuse.burn()
		fmt.Fprintf(&w.out, "tiers of %v in zone %q: %d -> %d (%s)\n", c.Service, c.Zone, c.From, c.To, c.Why)
	}
	o.Report = func(id ServiceID, m Member, s MemberStatus) {
		w.fuse.burn()
		fmt.Fprintf(&w.out, "report %v: %v: %v\n", id, m, s)
	}
	w.table = NewTable(o)
	return w
}

func (w *world) cluster(name ClusterName) *cluster {
	if w.clusters[name] == nil {
		w.clusters[name] = newCluster(name)
		w.clusters[name].fuse = &w.fuse
	}
	return w.clusters[name]
}

func name(s string) ClusterName {
	if s == "local" {
		return Local
	}
	return ClusterName(s)
}

func (w *world) run(d *datadriven.TestData) error {
	args := make([]string, 0, len(d.CmdArgs))
	opts := make(map[string]string)
	for _, a := range d.CmdArgs {
		if len(a.Vals) > 0 {
			opts[a.Key] = strings.Join(a.Vals, ",")
		} else {
			args = append(args, a.Key)
		}
	}
	arg := func(i int) string { return append(args, "", "", "")[i] }
	id := func(s string) ServiceID { return ServiceID{"ns", s} }
	client := Client{Zone: opts["zone"], Node: opts["node"], Instance: opts["instance"]}
	switch d.Cmd {
	case "cluster":
		return w.write(name(arg(0)), id(arg(1)), opts, slices.Contains(args, "node-local"), d.Input)
	case "define":
		def := &Definition{Federated: arg(1) == "federated"}
		for _, m := range args[1:] {
			if m == "federated" {
				continue
			}
			svc, c, _ := strings.Cut(m, "@")
			def.Members = append(def.Members, Member{ClusterName(c), id(svc)})
		}
		var err error
		if def.Preference, err = preferenceOf(opts); err != nil {
			return err
		}
		w.table.Define(id(arg(0)), def)
	case "undefine":
		w.table.Define(id(arg(0)), nil)
	case "link":
		return w.link(name(arg(0)), arg(1), opts)
	case "unlink":
		w.table.Unlink(name(arg(0)))
	case "watch":
		w.watches[arg(0)] = &watched{w: w.table.Watch(Key{id(arg(1)), 80, client})}
	case "close":
		w.watches[arg(0)].w.Close()
		delete(w.watches, arg(0))
	case "key":
		k := w.table.Key(id(arg(0)), 80, client)
		fmt.Fprintf(&w.out, "zone=%q node=%q\n", k.Client.Zone, k.Client.Node)
	case "tick":
		d, err := time.ParseDuration(arg(0))
		if err != nil {
			return err
		}
		return w.tick(d, w.printSteps)
	case "explain":
		return w.explain(Key{id(arg(0)), 80, client}, opts)
	case "tiers":
		w.printTiers()
	case "unserved":
		for _, u := range w.table.Unserved() {
			fmt.Fprintf(&w.out, "%v: %v: %v\n", u.Service, u.Member, u.Status)
		}
	case "watched":
		for _, p := range w.table.Watched() {
			fmt.Fprintf(&w.out, "%v:%d defined=%t\n", p.Service, p.Port, w.table.Defined(p.Service))
			for _, m := range p.Members {
				fmt.Fprintf(&w.out, "  %v: %v, offered=%d yielded=%d updates=%d\n",
					m.Member, m.Status, m.Offered, m.Yielded, m.Updates)
			}
		}
	default:
		return fmt.Errorf("unknown command %q", d.Cmd)
	}
	return nil
}

func (w *world) write(c ClusterName, id ServiceID, opts map[string]string, nodeLocal bool, input string) error {
	src := w.cluster(c)
	src.mu.Lock()
	o := newOffered()
	o.nodeLocal = nodeLocal
	src.services[id] = o
	src.mu.Unlock()
	switch opts["state"] {
	case "missing":
		o.state = Missing
	case "external":
		o.state = ExternalName
	}
	for line := range strings.Lines(input) {
		words := strings.Fields(line)
		var eps [2][]Endpoint // ready and unready
		to := 0
		for _, s := range words[1:] {
			if s == "unready" {
				to = 1
				continue
			}
			if strings.Contains(s, "==") {
				o.left[words[0]] = append(o.left[words[0]], s)
				continue
			}
			e, err := endpoint(s)
			if err != nil {
				return err
			}
			eps[to] = append(eps[to], e)
		}
		src.set(id, words[0], eps[0]...)
		src.setUnready(id, words[0], eps[1]...)
	}
	w.table.Changed(c, id, time.Time{})
	return nil
}

// link runs the command link.
func (w *world) link(c ClusterName, state string, opts map[string]string) error {
	l := Link{
		State:  Ready,
		Region: opts["region"],
		Cordon: standingWords[opts["cordon"]],
		Lost:   standingWords[opts["lost"]],
	}
	if over := opts["cordon-over"]; over != "" {
		var err error
		if l.CordonOver, err = time.ParseDuration(over); err != nil {
			return err
		}
	}
	switch state {
	case "pending":
		l.State = Pending
	case "unreachable":
		l.State = Unreachable
	case "fresh":
		fresh := newCluster(c)
		for id, o := range w.cluster(c).services {
			for slice, eps := range o.slices {
				fresh.set(id, slice, eps...)
			}
		}
		w.clusters[c] = fresh
	}
	if l.State == Ready {
		l.Source = w.cluster(c)
	}
	w.table.SetLink(c, l)
	return nil
}

// tick advances the clock like server.Run: it calls Tick whenever it is due, and step after each
// Tick.
func (w *world) tick(d time.Duration, step func()) error {
	for end := w.now.Add(d); ; {
		due, _ := w.table.Due()
		switch {
		case due.IsZero() || due.After(end):
			w.now = end
			w.table.Tick() // too early; it must change nothing
			return nil
		case !due.After(w.now):
			return fmt.Errorf("at %v, Tick is due at %v", w.now.Sub(w.start), due.Sub(w.start))
		}
		w.now = due
		w.table.Tick()
		before := w.out.Len()
		fmt.Fprintf(&w.out, "%v:\n", w.now.Sub(w.start))
		at := w.out.Len()
		if step(); w.out.Len() == at {
			w.out.Truncate(before)
		}
	}
}

// printSteps prints the step of every watch whose set has changed.
func (w *world) printSteps() {
	names := make([]string, 0, len(w.watches))
	for n := range w.watches {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		x := w.watches[n]
		now, _ := x.w.Get()
		if now == x.last {
			continue
		}
		fmt.Fprintf(&w.out, "%s v%d:", n, now.Version)
		added, removed := Diff(x.last, now)
		for _, e := range added {
			fmt.Fprintf(&w.out, " +%v@%v", e.Addr.Addr(), e.Cluster)
			if id := e.Common.Get().Identity.DNS; id != "" {
				fmt.Fprintf(&w.out, "(%s)", id)
			}
		}
		for _, a := range removed {
			fmt.Fprintf(&w.out, " -%v", a.Addr())
		}
		fmt.Fprintf(&w.out, " [%d]", len(now.Endpoints))
		for _, f := range []struct {
			set  bool
			word string
		}{{!now.Exists, "gone"}, {!now.Complete, "incomplete"}, {now.ByNode, "by-node"}} {
			if f.set {
				w.out.WriteString(" " + f.word)
			}
		}
		if now.Reason != None {
			words := [...]string{"", "undefined", "no-remote-service", "not-linked", "external", "unknown"}
			w.out.WriteString(" " + words[now.Reason])
		}
		w.out.WriteString("\n")
		x.last = now
	}
}

// printTiers prints the tiers that clients use.
func (w *world) printTiers() {
	at := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return t.Sub(w.start).String()
	}
	for _, s := range w.table.Steered(true) {
		fmt.Fprintf(&w.out, "%v: %v, spills=%d returns=%d\n", s.Service, s.Preference, s.Spills, s.FailBacks)
		for _, c := range s.Clients {
			fmt.Fprintf(&w.out, "  zone=%q", c.Client.Zone)
			if c.Client.Instance != "" {
				fmt.Fprintf(&w.out, " instance=%q", c.Client.Instance)
			}
			if c.Client.Node != "" {
				fmt.Fprintf(&w.out, " node=%q", c.Client.Node)
			}
			inUse, tiers := 0, ""
			for _, t := range c.Tiers {
				if t.InUse {
					inUse++
				}
				tiers += fmt.Sprintf(" %s %d/%d->%d", t.Tier, t.Ready, cmp.Or(t.Known, t.Ready), t.Sent)
			}
			fmt.Fprintf(&w.out, ": %d in use since %s (%s), next %s:%s", inUse, at(c.Since), c.Why, at(c.Next), tiers)
			w.out.WriteString("\n")
		}
	}
}

// explain prints the verdict on each address.
func (w *world) explain(k Key, opts map[string]string) error {
	watch := w.table.Watch(k)
	defer watch.Close()
	q := Question{Key: k, Limit: 1000}
	if most := opts["most"]; most != "" {
		q.Limit, _ = strconv.Atoi(most)
	}
	if addr := opts["address"]; addr != "" {
		q.Addr = netip.MustParseAddr(addr)
	}
	x, ok := w.table.Explain(context.Background(), q)
	if !ok {
		return fmt.Errorf("%v can't be explained", k)
	}
	for i, m := range x.Members {
		fmt.Fprintf(&w.out, "%v: %v, %v", m.Member, m.Status, m.Standing)
		if len(m.Ports) > 0 {
			fmt.Fprintf(&w.out, ", ports %v", m.Ports)
		}
		if !m.Changed.IsZero() {
			fmt.Fprintf(&w.out, ", changed at %v", m.Changed.Sub(w.start))
		}
		w.out.WriteString("\n")
		for _, a := range x.Addresses {
			if a.Member != i {
				continue
			}
			fmt.Fprintf(&w.out, "  %s %s: %v", a.Slice, cmp.Or(a.Text, a.Addr.Addr().String()), a.Verdict)
			if a.Tier != "" {
				fmt.Fprintf(&w.out, " (%s)", a.Tier)
			}
			if a.Detail != "" {
				fmt.Fprintf(&w.out, ": %s", a.Detail)
			}
			w.out.WriteString("\n")
		}
	}
	for _, v := range slices.Sorted(maps.Keys(x.Verdicts)) {
		fmt.Fprintf(&w.out, "%v %d, ", v, x.Verdicts[v])
	}
	fmt.Fprintf(&w.out, "%d more\n", x.More)
	return nil
}

// closeAll closes all watches twice, and checks that the table then holds only its inputs.
func (w *world) closeAll(t *testing.T) {
	for _, x := range w.watches {
		x.w.Close()
		x.w.Close()
	}
	w.checkReleased(t)
}

// checkReleased checks that a table without watches holds only its inputs.
func (w *world) checkReleased(t interface{ Errorf(string, ...any) }) {
	services := len(w.table.watched.list)
	numbered := len(w.table.numbered)
	members := len(w.table.byMember)
	updates := len(w.table.updates)
	addrs := w.table.offered.size()
	if services != 0 || numbered != 0 || members != 0 || updates != 0 || addrs != 0 {
		t.Errorf("not released: %d watched services, %d with numbers, %d clusters in use, %d counts, %d addresses",
			services, numbered, members, updates, addrs)
	}
	if due, _ := w.table.Due(); len(w.table.schedule.due) != 0 || !due.IsZero() {
		t.Errorf("not released: %d services are scheduled, the first at %v", len(w.table.schedule.due), due)
	}
}

// preferenceOf parses the options of define.
func preferenceOf(opts map[string]string) (*Preference, error) {
	var p Preference
	var err error
	known := false
	for k, v := range opts {
		known = true
		switch k {
		case "prefer":
			p.Tiers = tiersOf(v)
		case "min-ready":
			if n, percent := strings.CutSuffix(v, "%"); percent {
				p.MinReady.Percent, err = strconv.Atoi(n)
			} else {
				p.MinReady.Count, err = strconv.Atoi(v)
			}
		case "return-after":
			p.ReturnAfter, err = time.ParseDuration(v)
		case "return-over":
			p.ReturnOver, err = time.ParseDuration(v)
		default:
			err = fmt.Errorf("unknown option %q", k)
		}
		if err != nil {
			return nil, err
		}
	}
	if !known {
		return nil, nil
	}
	return &p, nil
}

func tiersOf(s string) (tiers []Tier) {
	for tier := range strings.SplitSeq(s, ",") {
		var t Tier
		for word := range strings.SplitSeq(strings.TrimSpace(tier), "+") {
			name, named := strings.CutPrefix(word, "cluster/")
			if k := slices.Index(TermWords[:], word); k >= 0 && !named {
				t = append(t, Term{Kind: TermKind(k)})
			} else {
				t = append(t, Term{Kind: Named, Cluster: ClusterName(name)})
			}
		}
		tiers = append(tiers, t)
	}
	return tiers
}

var standingWords = map[string]Standing{"": InService, "last-resort": LastResort, "withdrawn": Withdrawn}
