package plan

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestForgedClusters checks forged Services that name thousands of unlinked clusters. The forged
// Services must neither delete objects of other namespaces nor prevent new exports from being
// written. The plan tracks 250 of the forged Services, deletes none too early, and gives all of
// them one turn.
func TestForgedClusters(t *testing.T) {
	s := newSim(cluster("east", export("web", "mirror", "http=80")))
	s.settle(t)
	for i := range MaxObjects + 1 {
		ghost := fmt.Sprint("ghost", i)
		s.forge("x-"+ghost, ghost)
	}
	s.of("east").Exports = append(s.of("east").Exports, export("new", "mirror", "http=80"))
	s.settle(t)
	s.want(t, "web-east", "http=80 of east")
	s.want(t, "new-east", "http=80 of east")
	if n := s.evil(); n != MaxObjects+1 {
		t.Errorf("only %d forged Services exist before UnlinkedAfter", n)
	}
	if n := len(s.memory.unlinked); n != maxNamed {
		t.Errorf("%d parts are tracked", n)
	}
	s.Now = s.Now.Add(s.UnlinkedAfter)
	s.last, s.memory = Make(s.World, s.memory)
	for _, u := range s.last.Delete {
		if u.Turn != SharedTurn || u.Namespace != "evil" {
			t.Fatalf("%v is deleted in turn %q", u.ID, u.Turn)
		}
	}
	s.settle(t)
	if n := s.evil(); n != 0 {
		t.Errorf("%d forged Services still exist after UnlinkedAfter", n)
	}
	s.want(t, "web-east", "http=80 of east")
}

// TestForgedHoldsNothing checks that forged Services that name a linked cluster do not count as
// lost exports of that cluster. The forged Services delay only their own deletion, also under a new
// leader.
func TestForgedHoldsNothing(t *testing.T) {
	for _, first := range []bool{false, true} {
		exports := []Export{export("web", "mirror federated", "http=80"), export("api", "mirror", "http=80")}
		s := newSim(cluster("east", exports...), cluster(""))
		s.settle(t)
		if first {
			s.memory = Memory{}
		}
		for i := range 30 {
			s.forge(fmt.Sprintf("x%d-east", i), "east")
			s.forgeFederated(fmt.Sprint("y", i), fmt.Sprint("y", i), fmt.Sprintf("y%d@east", i))
		}
		s.of("east").Exports = s.of("east").Exports[1:]
		s.settle(t)
		s.want(t, "web-east", "none")
		s.want(t, "web-federated", "none")
		s.want(t, "api-east", "http=80 of east")
		if n := s.evil(); n != 60 {
			t.Errorf("first plan %v: only %d forged Services exist before their deletion is due", first, n)
		}
		s.Now = s.Now.Add(s.UnlinkedAfter)
		s.settle(t)
		if n := s.evil(); n != 0 {
			t.Errorf("first plan %v: %d forged Services still exist", first, n)
		}
	}
}

// TestLossBeforeLeader checks a mass loss of exports in one namespace before a new leader's first
// plan. The leader does not immediately delete the objects of lost exports.
func TestLossBeforeLeader(t *testing.T) {
	s := newSim(cluster("east"))
	for i := range 12 {
		a, b := s.in(1, fmt.Sprint("a", i), "mirror"), s.in(10+i, "b", "mirror")
		s.of("east").Exports = append(s.of("east").Exports, a, b)
	}
	s.settle(t)
	s.of("east").Exports, s.memory = nil, Memory{}
	s.settle(t)
	count := make(map[string]int)
	for id := range s.Services {
		count[id.Namespace]++
	}
	if want := map[string]int{"ns-01": 12}; !maps.Equal(count, want) {
		t.Errorf("remaining objects: %v, want %v", count, want)
	}
}

// TestUnlinkedKeepsPlace checks that objects of an unlinked cluster count toward the limits until
// UnlinkedAfter has passed.
func TestUnlinkedKeepsPlace(t *testing.T) {
	s := newSim(cluster(""), cluster("east"))
	for n := range 4 {
		for i := range DefaultPerNamespace {
			s.of("east").Exports = append(s.of("east").Exports, s.in(n, fmt.Sprintf("m%03d", i), "mirror"))
		}
	}
	s.settle(t)
	s.Clusters = s.Clusters[:1]
	s.settle(t)
	if n := len(s.Services); n != DefaultPerLink {
		t.Errorf("%d Services remain", n)
	}
	for what, placed := range s.memory.seen {
		if !placed {
			t.Errorf("%v no longer counts toward the limits", what)
		}
	}
	s.Now = s.Now.Add(s.UnlinkedAfter)
	s.settle(t)
	if n := len(s.Services); n != 0 || len(s.memory.unlinked)+len(s.memory.crowded)+len(s.memory.seen) != 0 {
		t.Errorf("%d Services remain, and the memory is %+v", n, s.memory)
	}
}

// TestForgedMembersNotRead checks an object that names more members than the plan reads. The plan
// neither changes the object nor deletes it too early, even if the members that it reads belong to
// few clusters.
func TestForgedMembersNotRead(t *testing.T) {
	long := strings.Repeat("c", 200)
	for _, list := range []string{
		strings.Repeat("x@ghost,", maxMembers+1) + "x@other",
		"x@ghost," + strings.Repeat("x@"+long+",", 200) + "x@other",
	} {
		s := newSim(cluster("east"))
		o := s.forgeFederated("x", "", list)
		o.Ports = []Port{{Name: "http", Protocol: "TCP", Number: 80, Target: "8080"}}
		s.settle(t)
		if now := s.Services[o.ID]; now == nil || now.Annotations[remoteDiscovery] != list {
			t.Errorf("a Service with %d members was changed", strings.Count(list, ",")+1)
		}
		s.Now = s.Now.Add(s.UnlinkedAfter)
		s.settle(t)
		if s.evil() != 0 {
			t.Error("the Service still exists after UnlinkedAfter")
		}
	}
}

// TestUnlinkedOneByOne checks that the time of each unlinked cluster's member is counted
// separately. A member whose time has passed, but whose removal fails, must not shorten the time of
// another member.
func TestUnlinkedOneByOne(t *testing.T) {
	web := export("web", "federated", "http=80")
	s := newSim(cluster(""), cluster("east", web), cluster("west", web))
	s.settle(t)
	s.Clusters = s.Clusters[:2]
	s.settle(t)
	s.Now = s.Now.Add(s.UnlinkedAfter)
	for range 2 { // make plans without writing
		s.last, s.memory = Make(s.World, s.memory)
	}
	s.Clusters = s.Clusters[:1]
	s.settle(t)
	s.want(t, "web-federated", "http=80 of east")
	s.Now = s.Now.Add(s.UnlinkedAfter)
	s.settle(t)
	s.want(t, "web-federated", "none")
}

// TestLimitOfLocal checks that 250 exports of the local cluster are written in one namespace.
// Existing objects beyond the limit stay while they are exported.
func TestLimitOfLocal(t *testing.T) {
	s := newSim(cluster(""))
	for i := range 300 {
		name := fmt.Sprintf("z%03d", i)
		o := s.forgeFederated(name, name, "")
		o.Ports = []Port{{Name: "http", Protocol: "TCP", Number: 80, Target: "8080"}}
		e := export(name, "federated", "http=80")
		e.Namespace, e.Service.Namespace = "evil", "evil"
		s.of("").Exports = append(s.of("").Exports, e)
	}
	for i := range 50 {
		s.of("").Exports = append(s.of("").Exports, s.in(1, fmt.Sprintf("a%03d", i), "federated"))
		e := export(fmt.Sprintf("a%03d", i), "federated", "http=80")
		e.Namespace, e.Service.Namespace = "evil", "evil"
		s.of("").Exports = append(s.of("").Exports, e)
	}
	for range 2 {
		s.settle(t)
		if n, all := s.evil(), len(s.Services); n != 300 || all != 350 {
			t.Errorf("the namespace has %d objects, and %d exist in total", n, all)
		}
		s.memory = Memory{}
	}
	s.of("").Exports = slices.DeleteFunc(s.of("").Exports, func(e Export) bool {
		return strings.HasPrefix(e.Name, "z") && e.Name >= "z150"
	})
	s.settle(t)
	s.Now = s.Now.Add(s.UnlinkedAfter) // the missing exports were a mass loss
	s.settle(t)
	if n := s.evil(); n != 200 {
		t.Errorf("%d objects exist after 150 exports were removed", n)
	}
}

// TestLeaderOverLimits checks that a new leader beyond the limits neither deletes exported objects
// nor writes more.
func TestLeaderOverLimits(t *testing.T) {
	s := newSim(cluster("east"))
	for n := range 8 {
		for i := range 300 {
			s.of("east").Exports = append(s.of("east").Exports, s.in(n, fmt.Sprintf("m%03d", i), "mirror"))
		}
	}
	s.settle(t)
	s.memory = Memory{}
	if w := s.settle(t); len(w) > 0 || len(s.Services) != DefaultPerLink {
		t.Errorf("%d Services, writes %.3q", len(s.Services), w)
	}
}

// TestMarkHasNoInfluence checks that an object with the mark does not affect the plan for other
// namespaces. Two worlds differ only in the forged objects of one namespace. The plans of both
// worlds must agree about all other namespaces, over time and across changes of leader.
func TestMarkHasNoInfluence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plain := newSim(
			cluster("", drawExports(t)...), cluster("east", drawExports(t)...), cluster("west", drawExports(t)...))
		for i := range 14 { // enough for a mass loss
			plain.of("east").Exports = append(plain.of("east").Exports, plain.in(i%2, fmt.Sprint("many", i), "mirror"))
		}
		plain.Namespaces["evil"] = true
		plain.MaxPerLink = rapid.SampledFrom([]int{0, 20}).Draw(t, "limit") // exports may exceed it
		plain.settleIn(t)
		forged := *plain
		forged.uids = 1_000_000
		for n := range rapid.IntRange(1, 3).Draw(t, "steps") {
			drawForged(t, &forged, n)
			if rapid.Bool().Draw(t, "leader") {
				plain.memory, forged.memory = Memory{}, Memory{}
			}
			plain.step(t, make(map[ID]bool))
			forged.World.Clusters, forged.Now, forged.MCSVersion = plain.Clusters, plain.Now, plain.MCSVersion
			forged.Services = withForged(plain.Services, forged.Services)
			forged.Imports = withForged(plain.Imports, forged.Imports)
			for range 3 {
				plain.pass()
				forged.pass()
				if got, want := about(&forged), about(plain); got != want {
					t.Fatalf("with forged objects, the plan is\n%s\nwant\n%s", got, want)
				}
				// Counters of the test, such as UIDs, must not differ between the worlds.
				forged.Services = withForged(plain.Services, forged.Services)
				forged.Imports = withForged(plain.Imports, forged.Imports)
			}
		}
	})
}

// withForged returns the objects of plain and the objects of forged in the namespace evil.
func withForged[O any](plain, forged map[ID]O) map[ID]O {
	all := maps.Clone(plain)
	for id, o := range forged {
		if id.Namespace == "evil" {
			all[id] = o
		}
	}
	return all
}

// drawForged forges some objects in the namespace evil.
func drawForged(t *rapid.T, s *sim, n int) {
	names := []string{"east", "west", "ghost", "other"}
	sizes := []int{1, 12, 12, 40, 12, 1, 12, 12, 1, 12, 12, 40, 12, 1, 12, 260} // large worlds are slow
	for i := range rapid.SampledFrom(sizes).Draw(t, "forged") {
		name := fmt.Sprintf("x%d-%d", n, i)
		of := names[rapid.IntRange(0, 3).Draw(t, "of")]
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			s.forge(name+"-"+of, of)
		case 1:
			local := rapid.SampledFrom([]string{"", name}).Draw(t, "local")
			s.forgeFederated(name, local, fmt.Sprintf("%s@%s,%s@ghost%d", name, of, name, i))
		case 2:
			s.forge(fmt.Sprintf("%s-ghost%d", name, i), fmt.Sprint("ghost", i))
		case 3:
			id := ID{"evil", name}
			s.Imports = maps.Clone(s.Imports)
			s.Imports[id] = &ServiceImport{
				ID:          id,
				UID:         s.uid(),
				Created:     s.Now,
				Type:        "ClusterSetIP",
				Clusters:    []string{"local", of, fmt.Sprint("ghost", i)},
				Labels:      map[string]string{markLabel: "linkerd"},
				Annotations: map[string]string{markAnnotation: "ServiceImport " + id.String()},
			}
		}
	}
}

// about formats a plan without the namespace evil.
func about(s *sim) string {
	var all []string
	for i := range s.last.Services {
		if w := &s.last.Services[i]; w.Namespace != "evil" {
			all = append(all, fmt.Sprintf("put %v %s %s", w.ID, w.Turn, w.Content()))
		}
	}
	for i := range s.last.Imports {
		if w := &s.last.Imports[i]; w.Namespace != "evil" {
			all = append(all, fmt.Sprintf("put import %v %s %s", w.ID, w.Turn, w.Content()))
		}
	}
	for _, u := range slices.Concat(s.last.Delete, s.last.DeleteImports) {
		if u.Namespace != "evil" {
			all = append(all, fmt.Sprintf("delete %+v", u))
		}
	}
	for _, v := range s.last.Verdicts {
		if v.Export.Namespace != "evil" {
			all = append(all, fmt.Sprintf("%+v", v))
		}
	}
	return strings.Join(all, "\n")
}

// TestHugeObjects checks that a plan reads a bounded part of an object with the mark, for any
// contents of the object.
func TestHugeObjects(t *testing.T) {
	s := newSim(cluster(""), cluster("east", export("web", "mirror", "http=80")))
	var list strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&list, "x@%d,", i)
	}
	huge := s.forgeFederated("x", "", list.String())
	huge.Annotations[copiedKey] = strings.Repeat("label:a=b,", 20_000)
	for i := range 30_000 {
		huge.Ports = append(huge.Ports, Port{Name: fmt.Sprint("p", i), Protocol: "TCP", Number: uint16(i + 1)})
	}
	if _, clusters, _ := identify(huge); len(clusters) != maxMembers {
		t.Errorf("identify read %d members", len(clusters))
	}
	if labels, _ := recorded(huge.Annotations[copiedKey]); len(labels) != 1 {
		t.Errorf("recorded labels: %v", labels)
	}
	s.settle(t)
	if s.Services[huge.ID] != huge {
		t.Error("the Service was changed")
	}
	if n := len(s.memory.unlinked) + len(s.memory.crowded); n != 1 {
		t.Errorf("the memory holds %d times", n)
	}
	// The plan reads only a part of an exported object that it manages.
	s.of("").Exports = []Export{export("x", "federated", "http=80")}
	s.of("").Exports[0].Namespace, s.of("").Exports[0].Service.Namespace = "evil", "evil"
	small := *huge
	small.Annotations = maps.Clone(huge.Annotations)
	small.Annotations[remoteDiscovery] = "x@1,x@2"
	s.Services[huge.ID] = &small
	s.settle(t)
	o := s.Services[huge.ID]
	if len(o.Ports) > maxPorts || !reflect.DeepEqual(o.Annotations[remoteDiscovery], "x@1,x@2") {
		t.Errorf("got %d ports, members %q", len(o.Ports), o.Annotations[remoteDiscovery])
	}
	s.Now = s.Now.Add(time.Hour)
	s.settle(t)
	s.want(t, "web-east", "http=80 of east")
}

// FuzzIdentify checks that a plan reads a bounded part of the labels and annotations of a marked
// Service. The test also checks that repeated plans stop writing.
func FuzzIdentify(f *testing.F) {
	f.Add("x-east", "east", "x", "", "", "")
	f.Add("x-federated", "", "", "x", "x@east,x@ghost", "label:a=b,annotation:c=d")
	f.Add("x-federated", "", "", "", strings.Repeat("x@a,", 9_000), strings.Repeat(",", 70_000))
	f.Add("x-federated", "", "", "x", "\xff@\xff,@,x@,@x", "label:=,=label:")
	f.Fuzz(func(t *testing.T, name, cluster, service, local, remote, copied string) {
		s := newSim(Cluster{Name: "east"})
		s.MCSVersion = ""
		o := s.forge(name, cluster)
		o.Labels[remoteService] = service
		o.Annotations[localDiscovery], o.Annotations[remoteDiscovery], o.Annotations[copiedKey] = local, remote, copied
		if _, clusters, _ := identify(o); len(clusters) > maxMembers {
			t.Errorf("identify read %d members", len(clusters))
		}
		labels, annotations := recorded(copied)
		if n := len(labels) + len(annotations); n > maxRecordBytes/len("label:=") {
			t.Errorf("identify read %d keys", n)
		}
		s.settle(t)
		s.Now = s.Now.Add(time.Hour)
		s.settle(t)
		if len(s.memory.unlinked) > maxNamed {
			t.Errorf("the memory holds %d parts", len(s.memory.unlinked))
		}
	})
}
