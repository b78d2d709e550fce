package spec

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// tiers parses tiers in the syntax of users, with cluster/NAME for clusters.
func tiers(text string) (list [][]string) {
	for tier := range strings.SplitSeq(text, ", ") {
		list = append(list, strings.Split(tier, "+"))
	}
	return list
}

// endpoints returns the endpoints of a cluster, one for each zone in zones. A dash before a zone
// means that the endpoint is unready. Each endpoint is in a different part.
func endpoints(cluster int, zones string) (l Slice) {
	for i, zone := range strings.Fields(zones) {
		e := Endpoint{
			Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(cluster), byte(i)}), 80),
			Part: i % Parts,
		}
		ready := strings.TrimPrefix(zone, "-")
		if e.Zone = ready; zone == ready {
			l.Ready = append(l.Ready, e)
		} else {
			l.Unready = append(l.Unready, e)
		}
	}
	return l
}

// text formats each address as the number of its cluster and its own number.
func text(list []Endpoint) string {
	var words []string
	for _, e := range list {
		ip := e.Addr.Addr().As4()
		words = append(words, fmt.Sprintf("%d%d", ip[2], ip[3]))
	}
	return strings.Join(words, " ")
}

// TestInvariants checks the promises of docs/preference.md for random histories. Needed tiers are
// used at once. If any endpoint is ready, clients get endpoints. Unneeded tiers are no longer used
// once their time is over.
func TestInvariants(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 0))
		var instants []Instant
		p := Preference{
			Tiers: tiers(
				[]string{
					"local, any", "cluster/c1, local, cluster/c2", "zone, region, any",
					"local+cluster/c1, remote",
				}[r.IntN(4)],
			),
			Count:       r.IntN(4),
			Percent:     []int{0, 0, 50}[r.IntN(3)],
			ReturnAfter: time.Duration(r.IntN(3)) * time.Second,
			ReturnOver:  time.Duration(r.IntN(3)) * time.Second,
		}
		for i := range 1 + r.IntN(8) {
			s := &Service{
				Preference: p,
				Zone:       "a",
				Federated:  true,
				Members: []Member{
					{Cluster: Cluster{"", true}},
					{Cluster: Cluster{"c1", true}},
					{Cluster: Cluster{"c2", false}},
				},
			}
			for m := range s.Members {
				zones := ""
				for range r.IntN(5) {
					zones += []string{"a ", "b ", "-a "}[r.IntN(3)]
				}
				s.Members[m].Slices, s.Members[m].Standings = []Slice{
					endpoints(m, zones),
				}, All(Standing(max(0, r.IntN(6)-3)))
				if r.IntN(4) == 0 { // a cordon is in progress
					s.Members[m].Standings, s.Members[m].Spreading = Standings{LastResort, 2: LastResort}, true
				}
			}
			instants = append(instants, Instant{time.Unix(int64(i), 0), s.State()})
			last := instants[i].State
			sent := Sent(instants, instants[i].At)
			for _, e := range last.Ready {
				if tier := last.TierOf(e); tier < last.Needed() && !strings.Contains(text(sent), text([]Endpoint{e})) {
					t.Fatalf(
						"seed %d: %v of tier %d is not sent, of which %d are needed: %s",
						seed,
						e.Addr,
						tier,
						last.Needed(),
						text(sent),
					)
				}
			}
			if usable := slices.ContainsFunc(last.Ready, func(e Endpoint) bool {
				return last.TierOf(e) <= last.LastResort()
			}); usable && len(sent) == 0 {
				t.Fatalf("seed %d: nothing is sent", seed)
			}
			for _, e := range Sent(instants, instants[i].At.Add(p.ReturnAfter+p.ReturnOver)) {
				if tier := last.TierOf(e); tier >= last.Needed() {
					t.Fatalf("seed %d: %v of tier %d is still sent", seed, e.Addr, tier)
				}
			}
		}
	}
}
