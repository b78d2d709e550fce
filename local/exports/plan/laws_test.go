package plan

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"isthmus/internal/exportspec"
)

// The mirrors of db-x in east and of db in x-east have one name.
var (
	someNames = []string{"web", "api", "db-x", "db"}
	someLinks = []string{"east", "west", "x-east"} // by age
)

func drawExport(t *rapid.T, name string) Export {
	ports := rapid.SampledFrom([]string{
		"http=80", "http=80", "http=8080", "metrics=80", "=80", "http=80,admin=9090", "dns=53/UDP,dns-tcp=53",
		"BAD=1,http=80",
	}).Draw(t, "ports")
	e := export(
		name,
		rapid.SampledFrom([]string{
			"", "mirror", "federated", "federated mirror", "import", "federated mirror import",
		}).Draw(t, "as"),
		ports,
	)
	e.Namespace = rapid.SampledFrom([]string{
		"shop", "shop", "shop", "other", "kube-system", "missing",
	}).Draw(t, "namespace")
	e.Service.Namespace = e.Namespace
	switch rapid.IntRange(0, 19).Draw(t, "kind") {
	case 0:
		e.Service.ClusterIPs = []string{"None"}
	case 1:
		e.Service.Type = "ExternalName"
	case 2:
		e.Service.Labels[mirroredLabel] = "true"
	case 4:
		e.Service.Traffic = Traffic{SessionAffinity: "Bogus", AffinitySeconds: 7}
	case 5:
		e.Service.Traffic = Traffic{SessionAffinity: "ClientIP", AffinitySeconds: 100_000}
	case 3:
		if e.Exported != nil {
			e.Service, e.Mirror, e.Federated = nil, false, false
			return e
		}
	}
	if families := rapid.SampledFrom([]string{"", "IPv4", "IPv6", "IPv6"}).Draw(t, "families"); families != "" {
		e.Service.IPFamilies = []string{families}
	}
	e.Service.Labels["team"] = rapid.SampledFrom([]string{"a", "b", "not/valid/"}).Draw(t, "team")
	e.Service.Annotations["retry.linkerd.io/http"] = rapid.SampledFrom([]string{
		"5xx", "gateway-error",
	}).Draw(t, "retry")
	if e.Exported != nil {
		e.Exported.Created = start.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "created")) * time.Second)
		e.Exported.UID += rapid.SampledFrom([]string{"x", "y"}).Draw(t, "uid")
	}
	return e
}

func drawExports(t *rapid.T) (all []Export) {
	for _, name := range someNames {
		e := drawExport(t, name)
		if e.Mirror || e.Federated || e.Exported != nil {
			all = append(all, e)
		}
	}
	return all
}

// step changes one thing of the world.
func (s *sim) step(t *rapid.T, theirs map[ID]bool) {
	links := append([]string{""}, someLinks...)
	name := rapid.SampledFrom(links).Draw(t, "cluster")
	i := slices.IndexFunc(s.Clusters, func(c Cluster) bool { return c.Name == name })
	written := slices.SortedFunc(maps.Keys(s.Services), compareIDs)
	switch what := rapid.IntRange(0, 12).Draw(t, "what"); {
	case what == 0:
		s.Now = s.Now.Add(time.Duration(rapid.IntRange(1, 900).Draw(t, "seconds")) * time.Second)
	case i < 0:
		fresh := newSim(cluster(name, drawExports(t)...)).Clusters[0]
		fresh.Age = start.Add(time.Duration(slices.Index(links, name)) * time.Second)
		s.Clusters = append(s.Clusters, fresh)
	case what == 1 && name != "":
		s.Clusters = slices.Delete(slices.Clone(s.Clusters), i, i+1)
	case what == 2:
		s.Clusters[i].Seen = !s.Clusters[i].Seen
	case what == 9:
		s.Clusters[i].SeenServiceExports = !s.Clusters[i].SeenServiceExports
	case what == 11:
		s.MCSVersion = rapid.SampledFrom([]string{"", "v1alpha1", "v1beta1"}).Draw(t, "version")
	case what == 10:
		s.Clusters[i].Emptied = !s.Clusters[i].Emptied
	case what == 3 && name != "":
		s.Clusters[i].Joins = rapid.SampledFrom([]Joins{JoinsAll, OnlyMirror, JoinsNone, Unreadable}).Draw(t, "joins")
	case what == 4 && len(written) > 0: // a user edits, or takes it for himself
		id := rapid.SampledFrom(written).Draw(t, "object")
		o := *s.Services[id]
		o.Labels = maps.Clone(o.Labels)
		if o.Labels == nil {
			o.Labels = make(map[string]string)
		}
		if rapid.Bool().Draw(t, "take") {
			delete(o.Labels, markLabel)
			delete(o.Labels, mirroredLabel)
			theirs[id] = true
		} else {
			o.Labels["mine"] = "yes"
			o.Ports = nil
		}
		s.Services[id] = &o
	case what == 5 && len(written) > 0:
		id := rapid.SampledFrom(written).Draw(t, "object")
		delete(s.Services, id)
		delete(theirs, id)
	case what == 6:
		id := ID{
			"shop",
			rapid.SampledFrom(someNames).Draw(t, "name") +
				rapid.SampledFrom([]string{"-east", "-federated", "-clusterset"}).Draw(t, "suffix"),
		}
		s.Services[id] = &Service{ID: id, UID: s.uid(), Type: "ClusterIP", Selector: rapid.Bool().Draw(t, "selector")}
		theirs[id] = true
	default:
		s.Clusters[i].Exports = drawExports(t)
	}
}

// TestLaws plays random worlds, in which writes fail: plans come to rest, never touch what has no mark, do not depend
// on the order of what is passed in, keep what users have set, and end where a world that was always so would be.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSim(
			cluster("", drawExports(t)...), cluster("east", drawExports(t)...), cluster("west", drawExports(t)...),
		)
		theirs := make(map[ID]bool)
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			s.step(t, theirs)
			before := maps.Clone(s.Services)
			inAnyOrder(t, s.World, s.memory)
			planned := s.planned()
			fails := rapid.SampledFrom([]string{
				"nothing", "nothing", "put", "import", "delete", "delete import",
			}).Draw(t, "fails")
			s.refuse = func(write string) bool { return strings.HasPrefix(write, fails+" ") }
			s.settleIn(t)
			for _, write := range s.writes {
				if object := writtenObject(write); fails == "nothing" && !planned[object] {
					t.Fatalf("%s was written and not planned: %q", object, s.writes)
				}
			}
			for id, o := range before {
				switch now := s.Services[id]; {
				case theirs[id] && now != o:
					t.Fatalf("%v had no mark, and was changed", id)
				case s.Marked(o) && now != nil && now.UID == o.UID &&
					now.Labels[remoteDiscovery] != o.Labels[remoteDiscovery]:
					t.Fatalf("%v was of %s, and is of %s", id, o.Labels[remoteDiscovery], now.Labels[remoteDiscovery])
				case o.Labels["mine"] != "" && now != nil && now.UID == o.UID && now.Labels["mine"] != "yes":
					t.Fatalf("%v has lost a user's label", id)
				}
			}
			s.checkValid(t)
			if s.MCSVersion == "" && s.writesImports() {
				t.Fatalf("there are no ServiceImports, and written is %q", s.writes)
			}
		}
		s.MCSVersion, s.refuse = "v1beta1", nil
		for i := range s.Clusters {
			s.Clusters[i].Seen, s.Clusters[i].SeenServiceExports, s.Clusters[i].Joins = true, true, JoinsAll
		}
		s.settleIn(t)
		s.Now = s.Now.Add(time.Hour)
		s.settleIn(t)
		s.checkSpecified(t)
	})
}

func (s *sim) settleIn(t *rapid.T) {
	s.writes = nil
	for n := 0; s.pass(); n++ {
		if n == 10 {
			t.Fatalf("plans do not come to rest: %q", s.writes)
		}
	}
}

// planned returns the objects that the first plan shows as changing, as writtenObject names them.
func (s *sim) planned() map[string]bool {
	all := make(map[string]bool)
	p, _ := Make(s.World, s.memory)
	for i := range p.Services {
		w := &p.Services[i]
		if _, differs := w.Over(s.Services[w.ID]); differs {
			all[w.ID.String()] = true
			if w.Kind == Import {
				all["import "+w.Of.String()] = true // its IPs follow
			}
		}
	}
	for i := range p.Imports {
		w := &p.Imports[i]
		if _, differs, status := w.Over(s.Imports[w.ID]); differs || status {
			all["import "+w.ID.String()] = true
		}
	}
	for _, u := range p.Delete {
		all[u.ID.String()] = true
	}
	for _, u := range p.DeleteImports {
		all["import "+u.ID.String()] = true
	}
	return all
}

// writtenObject returns the object of a write: "NAMESPACE/NAME" for a Service,
// "import NAMESPACE/NAME" for a ServiceImport.
func writtenObject(write string) string {
	return strings.TrimPrefix(strings.TrimPrefix(write, "delete "), "put ")
}

// TestUnknownClusters: a cluster whose exports are not known causes no write, and neither does its
// return with the same exports.
func TestUnknownClusters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSim()
		s.IPv4Only = rapid.Bool().Draw(t, "IPv4 only")
		for i, name := range append([]string{""}, someLinks...) {
			c := newSim(cluster(name, drawExports(t)...)).Clusters[0]
			c.Age = start.Add(time.Duration(i) * time.Second)
			s.Clusters = append(s.Clusters, c)
		}
		s.settleIn(t)
		s.Now = s.Now.Add(time.Minute)
		s.settleIn(t)

		before := s.Clusters
		s.Clusters = nil
		for _, c := range before {
			fate := rapid.SampledFrom([]string{"known", "unseen", "unreadable", "unlinked"}).Draw(t, "fate")
			switch {
			case fate == "unseen":
				c.Seen, c.SeenServiceExports, c.Exports = false, false, nil
			case fate == "unreadable" && c.Name != "":
				c = Cluster{Name: c.Name, Age: c.Age, LinkSettings: LinkSettings{Joins: Unreadable}}
			case fate == "unlinked" && c.Name != "":
				continue
			}
			s.Clusters = append(s.Clusters, c)
		}
		// A new leader does not know which mirror names of a deleted link are not free yet.
		if rapid.Bool().Draw(t, "another leader") && s.isLinked("x-east") {
			s.memory = Memory{}
		}
		s.settleIn(t)
		if len(s.writes) > 0 {
			t.Fatalf("written while clusters are not known: %q (%s)", s.writes, s.states())
		}
		s.Clusters = before
		s.settleIn(t)
		if len(s.writes) > 0 {
			t.Fatalf("written once they are known again: %q (%s)", s.writes, s.states())
		}
	})
}

func (s *sim) isLinked(name string) bool {
	return slices.ContainsFunc(s.Clusters, func(c Cluster) bool { return c.Name == name })
}

// inAnyOrder makes the plan of a world whose lists are in another order.
func inAnyOrder(t *rapid.T, w World, memory Memory) {
	p, after := Make(w, memory)
	w.Clusters = slices.Clone(w.Clusters)
	shuffle(w.Clusters)
	for i := range w.Clusters {
		w.Clusters[i].Exports = slices.Clone(w.Clusters[i].Exports)
		shuffle(w.Clusters[i].Exports)
	}
	q, afterToo := Make(w, memory)
	if !reflect.DeepEqual(p, q) || !reflect.DeepEqual(after, afterToo) {
		t.Fatalf("in another order the plan is\n%+v, not\n%+v", q, p)
	}
}

func shuffle[T any](all []T) {
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
}

// checkValid checks what an API server would.
func (s *sim) checkValid(t *rapid.T) {
	for id, o := range s.Services {
		if o.Labels[markLabel] == "" || o.Selector {
			continue
		}
		names, numbers := make(map[string]bool), make(map[string]bool)
		for _, p := range o.Ports {
			if p.problem() != "" || names[p.Name] || numbers[p.Protocol+fmt.Sprint(p.Number)] ||
				p.Name == "" && len(o.Ports) > 1 {
				t.Fatalf("%v has the ports %v", id, o.Ports)
			}
			names[p.Name], numbers[p.Protocol+fmt.Sprint(p.Number)] = true, true
		}
		if a, n := o.SessionAffinity, o.AffinitySeconds; (a != "ClientIP" || n < 1 || n > 86400) &&
			(a != "" && a != "None" || n != 0) {
			t.Fatalf("%v has the sessionAffinity %s of %d s", id, a, n)
		}
		for key, value := range o.Labels {
			if !validKey(key) || !validValue(value) {
				t.Fatalf("%v has the label %s=%q", id, key, value)
			}
		}
		if id.Namespace == "kube-system" && s.clusterExports("", id) == nil && o.Labels[remoteDiscovery] != "" {
			t.Fatalf("%v is in a namespace that is not allowed", id)
		}
	}
}

func (s *sim) clusterExports(name string, id ID) *Export {
	for _, c := range s.Clusters {
		for i := range c.Exports {
			if c.Name == name && c.Exports[i].ID == id {
				return &c.Exports[i]
			}
		}
	}
	return nil
}

// checkSpecified compares what is written with what package exportspec says of this world alone, and its contents with
// those of the members that decide.
func (s *sim) checkSpecified(t *rapid.T) {
	specified := s.specified()
	for _, namespace := range []string{"shop", "other", "kube-system"} {
		for _, name := range someNames {
			of := ID{namespace, name}
			for _, link := range someLinks {
				s.compare(t, ID{namespace, name + "-" + link}, specified)
			}
			s.compare(t, ID{namespace, name + "-federated"}, specified)
			s.compareImport(t, of, specified.Imports[exportspec.ID(of)])
		}
	}
}

// specified returns what package exportspec says of the world. Links are ordered by age.
func (s *sim) specified() exportspec.Written {
	var clusters []exportspec.Cluster
	for _, name := range append([]string{""}, someLinks...) {
		i := slices.IndexFunc(s.Clusters, func(c Cluster) bool { return c.Name == name })
		if i < 0 {
			continue
		}
		one := exportspec.Cluster{Name: name}
		for _, e := range s.Clusters[i].Exports {
			one.Exports = append(one.Exports, exportspec.Export{
				ID:            exportspec.ID(e.ID),
				Mirror:        e.Mirror,
				Federated:     e.Federated,
				ServiceExport: e.Exported != nil,
				Headless:      e.Service != nil && e.Service.ClusterIPs[0] == "None",
				Unusable:      !exportable(&e),
			})
		}
		clusters = append(clusters, one)
	}
	return exportspec.Of(clusters)
}

// compareImport compares a ServiceImport that these clusters export, and the members of its derived Service. Its type
// and ports may be those of before.
func (s *sim) compareImport(t *rapid.T, id ID, clusters []string) {
	var types []string
	for _, of := range clusters {
		kind := "ClusterSetIP"
		if s.clusterExports(of, id).Service.ClusterIPs[0] == "None" {
			kind = "Headless"
		}
		types = append(types, kind)
	}
	o, derived := s.Imports[id], s.Services[ID{id.Namespace, id.Name + "-clusterset"}]
	taken := derived != nil && (derived.Labels[markLabel] != "linkerd" || derived.Selector)
	switch {
	case o == nil && (len(clusters) == 0 || taken):
		return
	case o == nil || len(clusters) == 0 || !slices.Contains(types, o.Type):
		t.Fatalf("%v: import %+v, exported by %q as %q (%s)", id, o, clusters, types, s.states())
	}
	names := slices.Clone(clusters)
	for i := range names {
		names[i] = shown(names[i])
	}
	if slices.Sort(names); !slices.Equal(o.Clusters, names) {
		t.Fatalf("%v has the clusters %q, not %q", id, o.Clusters, names)
	}
	switch {
	case taken:
		if len(o.IPs) > 0 {
			t.Fatalf("%v has the IPs %q, and its Service is somebody else's", id, o.IPs)
		}
	case (derived != nil) != (o.Type == "ClusterSetIP"):
		t.Fatalf("%v is %s, and its Service %+v", id, o.Type, derived)
	case derived != nil:
		_, has, _ := identify(derived)
		if slices.Sort(has); !slices.Equal(has, clusters) || !slices.Equal(o.IPs, derived.ClusterIPs) {
			t.Fatalf("%v has the members %q, not %q, and the import the IPs %q", derived.ID, has, clusters, o.IPs)
		}
	}
}

// exportable reports whether a cluster may export a Service.
func exportable(e *Export) bool {
	return e.Service != nil && e.Service.Type == "ClusterIP" && e.Service.Labels[mirroredLabel] == ""
}

// compare compares a mirror or federated Service.
func (s *sim) compare(t *rapid.T, id ID, specified exportspec.Written) {
	members := specified.Services[exportspec.ID(id)]
	o := s.Services[id]
	ours := o != nil && o.Labels[markLabel] == "linkerd" && !o.Selector
	switch {
	case o != nil && !ours:
		return // somebody else's
	case ours != (len(members) > 0):
		t.Fatalf("%v: written %v, exported by %q (%s)", id, ours, members, s.states())
	case !ours:
		return
	}
	g, has, _ := identify(o)
	if !slices.Equal(has, members) {
		t.Fatalf("%v has the members %q, not %q", id, has, members)
	}
	var of []*Export
	for _, member := range members {
		of = append(of, s.clusterExports(member, g.of))
	}
	var ports []string
	for _, e := range of {
		for _, p := range e.Service.Ports {
			taken := slices.ContainsFunc(ports, func(q string) bool {
				x, y := strings.Split(q, " "), []string{p.Name, fmt.Sprint(p.Number), p.Protocol}
				return x[0] == y[0] || x[1] == y[1] && x[2] == y[2]
			})
			if !taken && p.Name != "BAD" {
				ports = append(ports, fmt.Sprintf("%s %d %s", p.Name, p.Number, p.Protocol))
			}
		}
	}
	for i, p := range o.Ports {
		if text := fmt.Sprintf(
			"%s %d %s", p.Name, p.Number, p.Protocol,
		); len(o.Ports) != len(ports) || text != ports[i] && !strings.HasPrefix(ports[i], " ") {
			t.Fatalf("%v has the ports %v, not %q", id, o.Ports, ports)
		}
	}
	if got, want := o.Annotations["retry.linkerd.io/http"], of[0].Service.Annotations["retry.linkerd.io/http"]; got != want {
		t.Fatalf("%v: the annotation is %q, not that of the member that decides, %q", id, got, want)
	}
}
