package federation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// impactWorld is a federated service with members in three clusters.
type impactWorld struct {
	*Table
	now      time.Time
	clusters map[ClusterName]*cluster
	watches  map[Client]*Watch[*Set]
}

func newImpactWorld(p *Preference) *impactWorld {
	w := &impactWorld{
		now:      time.Unix(1e9, 0),
		clusters: make(map[ClusterName]*cluster),
		watches:  make(map[Client]*Watch[*Set]),
	}
	w.Table = NewTable(Options{Now: func() time.Time { return w.now }})
	d := &Definition{Federated: true, Preference: p}
	for _, name := range []ClusterName{Local, "east", "north"} {
		w.clusters[name] = newCluster(name)
		w.clusters[name].set(webID, "empty")
		d.Members = append(d.Members, Member{name, webID})
		w.Link(name, Ready, w.clusters[name])
	}
	w.Define(webID, d)
	return w
}

func (w *impactWorld) watch(clients ...Client) {
	for _, c := range clients {
		if w.watches[c] == nil {
			w.watches[c] = w.Watch(Key{Service: webID, Port: 80, Client: c})
		}
	}
}

func (w *impactWorld) close() {
	for _, x := range w.watches {
		x.Close()
	}
}

// has returns the number of endpoints that a client gets from each cluster.
func (w *impactWorld) has(c Client) (list []ClusterCount) {
	set, _ := w.watches[c].Get()
	for _, name := range []ClusterName{Local, "east", "north"} {
		n := 0
		for _, e := range set.Endpoints {
			if e.Cluster == name {
				n++
			}
		}
		list = append(list, ClusterCount{Cluster: name, Count: n})
	}
	return list
}

// TestImpact checks the impact of cordoning cluster east. TestImpactIsWhatFollows covers the
// endpoints in all other cases.
func TestImpact(t *testing.T) {
	z1, z2 := Client{Zone: "z1"}, Client{Zone: "z2"}
	for _, c := range []struct {
		name, prefer       string
		min                MinReady
		local, east, north string // endpoints of each cluster
		clients            []Client
		want               string
	}{
		{
			name:    "no preference",
			prefer:  "any",
			local:   "10.0.0.1 10.0.0.2",
			east:    "10.0.1.1",
			clients: []Client{{}},
			want:    "port 80: local 2, east 1, north 0 → local 2, east 0, north 0",
		},
		{
			name:    "a tier of zones",
			prefer:  "zone, north",
			local:   "10.0.0.1,zone=z1",
			east:    "10.0.1.2,zone=z2",
			clients: []Client{z1, z2},
			want:    "port 80, zone z2: local 0, east 1, north 0 → local 0, east 0, north 0 bare",
		},
		{
			name:    "one zone",
			prefer:  "zone, any",
			local:   "10.0.0.1,zone=z1",
			east:    "10.0.1.2,zone=z1",
			clients: []Client{z1},
			want:    "port 80: local 1, east 1, north 0 → local 1, east 0, north 0",
		},
		{
			name:   "nobody watches it",
			prefer: "any",
			east:   "10.0.1.1",
			north:  "10.0.2.1 10.0.2.2",
			want:   "unwatched: local 1, east 1, north 1 → local 1, east 0, north 1",
		},
		{
			name:   "nobody watches what no tier names",
			prefer: "east",
			local:  "10.0.0.1",
			east:   "10.0.1.1",
			want:   "unwatched: local 0, east 1, north 0 → local 0, east 0, north 0 bare",
		},
		{
			name:   "nobody watches a tier of zones",
			prefer: "zone",
			local:  "10.0.0.1",
			east:   "10.0.1.1",
			want:   "unwatched: local 1, east 1, north 1 → local 1, east 0, north 1",
		},
		{
			name:    "clients of an instance",
			prefer:  "any",
			local:   "10.0.0.1",
			east:    "10.0.1.1,host=h1",
			clients: []Client{{Instance: "h1"}},
			want:    "port 80: local 1, east 1, north 0 → local 1, east 0, north 0",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &Preference{MinReady: c.min}
			if c.prefer != "any" {
				p.Tiers = tiersOf(c.prefer)
			}
			w := newImpactWorld(p)
			defer w.close()
			for name, texts := range map[ClusterName]string{Local: c.local, "east": c.east, "north": c.north} {
				for i, text := range strings.Fields(texts) {
					e, err := endpoint(text)
					if err != nil {
						t.Fatal(err)
					}
					w.clusters[name].set(webID, fmt.Sprint(i), e)
				}
			}
			w.watch(c.clients...)
			list, err := w.Impact(t.Context(), "east", Withdrawn)
			if err != nil || len(list) != 1 || list[0].Service != webID {
				t.Fatalf("%v, %+v", err, list)
			}
			if got := impactText(&list[0]); got != c.want {
				t.Errorf("%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func impactText(i *ServiceImpact) string {
	text := "unwatched"
	if i.Watched {
		text = fmt.Sprint("port ", i.Port)
	}
	if i.Zone != "" {
		text += ", zone " + i.Zone
	}
	counts := func(list []ClusterCount) string {
		var words []string
		for _, c := range list {
			words = append(words, fmt.Sprintf("%v %d", c.Cluster, c.Count))
		}
		return strings.Join(words, ", ")
	}
	text += ": " + counts(i.Now) + " → " + counts(i.Then)
	if i.bare() {
		text += " bare"
	}
	return text
}

// TestImpactIsWhatFollows checks that the predicted endpoints are those that the clients have after
// the change, and that no client has fewer.
func TestImpactIsWhatFollows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newImpactWorld(drawPreference(t))
		defer w.close()
		for _, name := range []ClusterName{Local, "east", "north"} {
			w.clusters[name].set(webID, "a", drawEndpoints(t)...)
			w.clusters[name].setUnready(webID, "a", drawEndpoints(t)...)
			w.clusters[name].service(webID).nodeLocal = name == Local && rapid.Bool().Draw(t, "node-local")
		}
		standing := func(label string) Standing { return Standing(rapid.IntRange(0, 2).Draw(t, label)) }
		w.SetLink("north", Link{State: Ready, Source: w.clusters["north"], Cordon: standing("north")})
		w.SetLink("east", Link{State: Ready, Source: w.clusters["east"], Cordon: standing("east before")})
		for range rapid.IntRange(1, 4).Draw(t, "clients") {
			w.watch(Client{
				Zone: rapid.SampledFrom([]string{"", "z1", "z2"}).Draw(t, "zone"),
				Node: rapid.SampledFrom([]string{"", "n1", "n2"}).Draw(t, "node"),
			})
		}
		to := standing("east")
		list, err := w.Impact(context.Background(), "east", to)
		if err != nil || len(list) != 1 || !list[0].Watched {
			t.Fatalf("%v, %+v", err, list)
		}
		said, client := list[0], Client{Zone: list[0].Zone, Node: list[0].Node}
		if w.watches[client] == nil { // all clients have the same
			for c := range w.watches {
				client = c
			}
		}
		if now := w.has(client); !slices.Equal(now, said.Now) {
			t.Fatalf("%+v has %v now, want %v", client, now, said.Now)
		}
		before := make(map[Client][]ClusterCount)
		for c := range w.watches {
			before[c] = w.has(c)
		}
		w.SetLink("east", Link{State: Ready, Source: w.clusters["east"], Cordon: to})
		for range 30 {
			w.now = w.now.Add(time.Second)
			w.Tick()
		}
		if then := w.has(client); !slices.Equal(then, said.Then) {
			t.Fatalf("%+v, with %v before: has %v then, want %v", client, said.Now, then, said.Then)
		}
		for c := range w.watches {
			one := ServiceImpact{Now: before[c], Then: w.has(c)}
			if one.bare() && !said.bare() || one.bare() == said.bare() && total(one.Then) < total(said.Then) {
				t.Fatalf("%+v has fewer endpoints: %s, want %s", c, impactText(&one), impactText(&said))
			}
		}
	})
}

func TestImpactEnds(t *testing.T) {
	w := newImpactWorld(nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if list, err := w.Impact(ctx, "east", Withdrawn); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", list, err)
	}
	if list, err := w.Impact(t.Context(), "south", Withdrawn); err != nil || len(list) != 0 {
		t.Errorf("impact for a cluster without services: %v, %v", list, err)
	}
}
