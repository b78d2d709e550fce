package federation

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tick lets time pass as a gateway's runner does: Tick is called whenever it is due, and
// step after each.
func (w *world) tick(d time.Duration, step func()) error {
	for end := w.now.Add(d); ; {
		due, _ := w.table.Due()
		switch {
		case due.IsZero() || due.After(end):
			w.now = end
			w.table.Tick() // too early: it must change nothing
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

// preferenceOf reads the options of define.
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

// link runs the command of that name.
func (w *world) link(c ClusterName, state string, opts map[string]string) error {
	l := Link{State: Ready, Region: opts["region"], Cordon: standingWords[opts["cordon"]], Lost: standingWords[opts["lost"]]}
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

// printTiers prints what steers clients.
func (w *world) printTiers() {
	at := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return t.Sub(w.start).String()
	}
	for _, s := range w.table.Steered(true) {
		fmt.Fprintf(&w.out, "%v: %v, spills=%d returns=%d\n", s.Service, s.Preference, s.Spills, s.Returns)
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
