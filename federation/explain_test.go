package federation

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// TestExplainUnread checks the explanation of an address that the table has not read yet. The test
// also checks that Explain returns false for a key without watches and after its context ends.
func TestExplainUnread(t *testing.T) {
	table, east := NewTable(Options{}), newCluster("east")
	table.Link("east", Ready, east)
	table.Define(webID, &Definition{Federated: true, Members: []Member{{"east", webID}}})
	k := Key{Service: webID, Port: 80}
	if _, ok := table.Explain(t.Context(), Question{Key: k}); ok {
		t.Error("Explain returned true for an unwatched key")
	}
	defer table.Watch(k).Close()
	e, _ := endpoint("10.0.0.7")
	east.set(webID, "s", e)
	if x := explained(t, table, k); len(x.Addresses) != 1 || x.Addresses[0].Verdict != Unread {
		t.Errorf("addresses %+v", x.Addresses)
	}
	for what, other := range map[string]Key{
		"port":   {Service: webID, Port: 81},
		"client": {Service: webID, Port: 80, Client: Client{Zone: "z"}},
	} {
		if _, ok := table.Explain(t.Context(), Question{Key: other}); ok {
			t.Errorf("Explain returned true for an unwatched %s", what)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, ok := table.Explain(ended, Question{Key: k}); ok {
		t.Error("Explain returned true after its context ended")
	}
}

// TestExplainListsWhatIsMissing checks that addresses that clients do not get are listed first if
// there is no room for all addresses.
func TestExplainListsWhatIsMissing(t *testing.T) {
	local, east := newCluster(Local), newCluster("east")
	var eps []Endpoint
	for i := range 8 {
		e, _ := endpoint(fmt.Sprintf("10.%d.0.%d", i/4, i)) // 10.1 is outside the link's ranges
		eps = append(eps, e)
	}
	local.set(webID, "s", eps...)
	east.set(webID, "s", eps...)
	table := NewTable(Options{})
	table.Link(Local, Ready, local)
	table.SetLink("east", Link{State: Ready, Source: east, Within: NewRanges(netip.MustParsePrefix("10.0.0.0/16"))})
	table.Define(webID, &Definition{Federated: true, Members: []Member{{Local, webID}, {"east", webID}}})
	k := Key{Service: webID, Port: 80}
	defer table.Watch(k).Close()
	for most, want := range map[int]string{
		0: "",
		3: "0 taken, 1 taken, 2 taken",
		10: "0 taken, 1 taken, 2 taken, 3 taken, " +
			"4 outside-ranges, 5 outside-ranges, 6 outside-ranges, 7 outside-ranges, " +
			"0 served, 1 served",
		16: "0 served, 1 served, 2 served, 3 served, 4 served, 5 served, 6 served, 7 served, " +
			"0 taken, 1 taken, 2 taken, 3 taken, " +
			"4 outside-ranges, 5 outside-ranges, 6 outside-ranges, 7 outside-ranges",
	} {
		x, ok := table.Explain(t.Context(), Question{Key: k, Limit: most})
		var got []string
		for _, a := range x.Addresses {
			got = append(got, fmt.Sprint(a.Addr.Addr().As4()[3], " ", a.Verdict))
		}
		if strings.Join(got, ", ") != want || !ok || x.More != 16-most || x.Verdicts[Served] != 8 {
			t.Errorf("%d at most:\ngot  %s\nwant %s\n%d more, %v",
				most, strings.Join(got, ", "), want, x.More, x.Verdicts)
		}
	}
}

// TestExplainGatewayInstance checks that an explanation for an instance says why clients cannot use
// a gateway.
func TestExplainGatewayInstance(t *testing.T) {
	table, east := NewTable(Options{}), newCluster("east")
	table.Link("east", Ready, east)
	gateway, _ := endpoint("198.51.100.1")
	east.set(webID, "gateways", gateway)
	east.setBehind(webID, "gateways", 1, 0)
	table.Define(webID, &Definition{Federated: true, Members: []Member{{"east", webID}}})
	k := Key{Service: webID, Port: 80, Client: Client{Instance: "web-0"}}
	defer table.Watch(k).Close()
	a := explained(t, table, k).Addresses[0]
	if a.Verdict != OtherInstance || a.Detail != "clients cannot reach a specific instance through a Linkerd gateway" {
		t.Errorf("%v %q", a.Verdict, a.Detail)
	}
}
