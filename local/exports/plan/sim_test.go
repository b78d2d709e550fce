package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"pgregory.net/rapid"

	"isthmus/internal/spec"
)

// start is the start time of every world.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// sim is a cluster to which plans are applied like an API server and the writer would apply them.
type sim struct {
	World
	memory Memory
	last   *Plan
	uids   int
	writes []string                // since the last reset
	refuse func(write string) bool // if nil, no write fails
}

func newSim(clusters ...Cluster) *sim {
	all, err := ParsePatterns("*,!kube-*,!linkerd*")
	if err != nil {
		panic(err)
	}
	s := &sim{World: World{
		Settings: Settings{
			Controller:     "linkerd",
			Multicluster:   "linkerd-multicluster",
			ClusterName:    "local",
			Labels:         true,
			ServiceExports: true,
			UnlinkedAfter:  10 * time.Minute,
		},
		Now:        start,
		MCSVersion: "v1beta1",
		Namespaces: map[string]bool{"shop": true, "other": true, "linkerd": true, "kube-system": true},
		Services:   make(map[ID]*Service),
		Imports:    make(map[ID]*ServiceImport),
	}}
	for i, c := range clusters {
		c.Synced, c.ServiceExportsSynced, c.Domain, c.Allow, c.Age = true, true, "cluster.local", all, start.Add(
			time.Duration(i)*time.Second,
		)
		s.Clusters = append(s.Clusters, c)
	}
	return s
}

func cluster(name string, exports ...Export) Cluster { return Cluster{Name: name, Exports: exports} }

func (s *sim) of(name string) *Cluster {
	i := slices.IndexFunc(s.Clusters, func(c Cluster) bool { return c.Name == name })
	return &s.Clusters[i]
}

// export returns the export of a Service in the namespace shop. The string as lists the kinds of
// export: federated, mirror and import. The string ports has a form such as
// "http=80,admin=9090/UDP".
func export(name, as, ports string) Export {
	id := ID{"shop", name}
	e := Export{
		ID: id,
		Service: &Service{
			ID:          id,
			Type:        "ClusterIP",
			ClusterIPs:  []string{"10.0.0.1"},
			Labels:      map[string]string{},
			Annotations: map[string]string{},
		},
	}
	for p := range strings.SplitSeq(ports, ",") {
		var one Port
		name, rest, _ := strings.Cut(p, "=")
		number, protocol, _ := strings.Cut(rest, "/")
		fmt.Sscan(number, &one.Number)
		one.Name, one.Protocol, one.Target = name, "TCP", "8080"
		if protocol != "" {
			one.Protocol = protocol
		}
		e.Service.Ports = append(e.Service.Ports, one)
	}
	e.Federated, e.Mirror = strings.Contains(as, "federated"), strings.Contains(as, "mirror")
	if strings.Contains(as, "import") {
		e.Exported = &ServiceExport{UID: "uid-" + name, Created: start}
	}
	return e
}

// in returns an export in the namespace with that number.
func (s *sim) in(n int, name, as string) Export {
	e := export(name, as, "http=80")
	e.Namespace = fmt.Sprintf("ns-%02d", n)
	e.Service.Namespace = e.Namespace
	s.Namespaces[e.Namespace] = true
	return e
}

func (s *sim) uid() string {
	s.uids++
	return fmt.Sprint(s.uids)
}

// pass makes one plan and applies it. pass reports whether the plan has written anything.
func (s *sim) pass() bool {
	s.last, s.memory = Make(s.World, s.memory)
	before := len(s.writes)
	s.Services, s.Imports = maps.Clone(s.Services), maps.Clone(s.Imports)
	for i := range s.last.Imports {
		w := &s.last.Imports[i]
		next, differs, status := w.Over(s.Imports[w.ID])
		if !differs && !status || s.refused("import "+w.ID.String()) {
			continue
		}
		if next.UID == "" {
			next.UID, next.Created = s.uid(), s.Now
		}
		s.Imports[w.ID] = &next
	}
	for i := range s.last.Services {
		w := &s.last.Services[i]
		next, differs := w.Over(s.Services[w.ID])
		if w.Waits || !differs || s.refused("put "+w.ID.String()) {
			continue
		}
		if next.UID == "" {
			next.UID = s.uid()
			if len(next.ClusterIPs) == 0 {
				next.ClusterIPs = []string{"10.96.0." + next.UID}
			}
		}
		s.Services[w.ID] = &next
	}
	for _, u := range s.last.Delete {
		if !s.refused("delete " + u.ID.String()) {
			delete(s.Services, u.ID)
		}
	}
	for _, u := range s.last.DeleteImports {
		if !s.refused("delete import " + u.ID.String()) {
			delete(s.Imports, u.ID)
		}
	}
	return len(s.writes) > before
}

// refused reports whether a write fails. refused records a write that succeeds.
func (s *sim) refused(write string) bool {
	if s.refuse != nil && s.refuse(write) {
		return true
	}
	s.writes = append(s.writes, write)
	return false
}

// writesImports reports whether a ServiceImport has been written.
func (s *sim) writesImports() bool {
	return slices.ContainsFunc(s.writes, func(write string) bool { return strings.Contains(write, "import ") })
}

// settle makes plans until nothing is written, and returns the writes.
func (s *sim) settle(t testing.TB) []string {
	t.Helper()
	s.writes = nil
	for n := 0; s.pass(); n++ {
		if n == 10 {
			t.Fatalf("repeated plans keep writing: %q", s.writes)
		}
	}
	return s.writes
}

// settleSoon settles after kindTime, when the deletion of a ServiceExport takes effect.
func (s *sim) settleSoon(t testing.TB) {
	s.settle(t)
	s.Now = s.Now.Add(kindTime)
	s.settle(t)
}

// settleSlowly makes some plans before any write, and then settles.
func (s *sim) settleSlowly(t testing.TB) {
	s.refuse = func(string) bool { return true }
	for range 3 {
		s.pass()
	}
	s.refuse = nil
	s.settle(t)
}

func (s *sim) settleIn(t *rapid.T) {
	s.writes = nil
	for n := 0; s.pass(); n++ {
		if n == 10 {
			t.Fatalf("repeated plans keep writing: %q", s.writes)
		}
	}
}

// replace removes the Service of a ServiceExport for a time.
func (s *sim) replace(t testing.TB, name string, gap time.Duration, meanwhile func()) {
	t.Helper()
	e := &s.of(name).Exports[0]
	service := e.Service
	e.Service = nil
	s.settle(t)
	s.Now = s.Now.Add(gap)
	s.settleSlowly(t)
	meanwhile()
	s.of(name).Exports[0].Service = service
	s.settleSlowly(t)
}

// service describes a Service of the local cluster: its ports, and its members or the cluster that
// it mirrors.
func (s *sim) service(name string) string {
	o := s.Services[ID{"shop", name}]
	if o == nil {
		return "none"
	}
	var text []string
	for _, p := range o.Ports {
		text = append(text, p.Name+"="+p.text())
	}
	_, clusters, _ := identify(o)
	for i := range clusters {
		clusters[i] = displayName(clusters[i])
	}
	return strings.Join(text, ",") + " of " + strings.Join(clusters, ",")
}

func (s *sim) imported(t *testing.T, name string) *ServiceImport {
	t.Helper()
	o := s.Imports[ID{"shop", name}]
	if o == nil {
		t.Fatalf("there is no ServiceImport %s (%s)", name, s.states())
	}
	return o
}

// states lists the verdicts in the form "cluster/name kind: state".
func (s *sim) states() string {
	var all []string
	for _, v := range s.last.Verdicts {
		all = append(all, fmt.Sprintf("%s/%s %s: %s", displayName(v.Cluster), v.Export.Name, v.Kind, v.State))
	}
	return strings.Join(all, "; ")
}

// condition returns the reason and the message of a condition of the local ServiceExport, separated
// by a space.
func (s *sim) condition(name, kind string) string {
	for _, e := range s.last.Exports {
		for _, c := range e.Want {
			if e.Name == name && c.Type == kind {
				return strings.TrimSpace(c.Reason + " " + c.Message)
			}
		}
	}
	return ""
}

// readyReason returns the reason of the condition Ready of the ServiceImport web.
func (s *sim) readyReason(t *testing.T) string {
	t.Helper()
	return meta.FindStatusCondition(s.imported(t, "web").Conditions, "Ready").Reason
}

func (s *sim) want(t testing.TB, name, what string) {
	t.Helper()
	if got := s.service(name); got != what {
		t.Errorf("%s is %s, want %s (%s)", name, got, what, s.states())
	}
}

// planned returns the objects that the first plan would change, in the form of writtenObject.
func (s *sim) planned() map[string]bool {
	all := make(map[string]bool)
	p, _ := Make(s.World, s.memory)
	for i := range p.Services {
		w := &p.Services[i]
		if _, differs := w.Over(s.Services[w.ID]); differs {
			all[w.ID.String()] = true
			if w.Kind == Import {
				all["import "+w.Of.String()] = true // its IPs follow the Service
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

// writtenObject returns the object of a write: "NAMESPACE/NAME" for a Service, "import
// NAMESPACE/NAME" for a ServiceImport.
func writtenObject(write string) string {
	return strings.TrimPrefix(strings.TrimPrefix(write, "delete "), "put ")
}

func (s *sim) isLinked(name string) bool {
	return slices.ContainsFunc(s.Clusters, func(c Cluster) bool { return c.Name == name })
}

// forge creates a marked mirror of x in the namespace evil, for that cluster.
func (s *sim) forge(name, cluster string) *Service {
	o := &Service{
		ID:         ID{"evil", name},
		UID:        s.uid(),
		Type:       "ClusterIP",
		ClusterIPs: []string{"None"},
		Labels: map[string]string{
			markLabel:       "linkerd",
			mirroredLabel:   "true",
			clusterLabel:    cluster,
			remoteDiscovery: cluster,
			remoteService:   strings.TrimSuffix(name, "-"+cluster),
		},
	}
	o.Annotations = map[string]string{markAnnotation: "Service " + o.ID.String()}
	return s.addForged(o)
}

// forgeFederated creates a marked federated Service in the namespace evil, with these members.
func (s *sim) forgeFederated(name, local, remote string) *Service {
	o := &Service{
		ID:         ID{"evil", name + "-federated"},
		UID:        s.uid(),
		Type:       "ClusterIP",
		ClusterIPs: []string{"10.96.9.9"},
		Labels:     map[string]string{markLabel: "linkerd", mirroredLabel: "true"},
	}
	o.Annotations = map[string]string{
		markAnnotation:  "Service " + o.ID.String(),
		localDiscovery:  local,
		remoteDiscovery: remote,
	}
	return s.addForged(o)
}

func (s *sim) addForged(o *Service) *Service {
	s.Namespaces["evil"] = true
	s.Services = maps.Clone(s.Services)
	s.Services[o.ID] = o
	return o
}

// evil returns the number of Services in the namespace evil.
func (s *sim) evil() (n int) {
	for id := range s.Services {
		if id.Namespace == "evil" {
			n++
		}
	}
	return n
}

// step makes one change to the world.
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
		s.Clusters[i].Synced = !s.Clusters[i].Synced
	case what == 9:
		s.Clusters[i].ServiceExportsSynced = !s.Clusters[i].ServiceExportsSynced
	case what == 11:
		s.MCSVersion = rapid.SampledFrom([]string{"", "v1alpha1", "v1beta1"}).Draw(t, "version")
	case what == 10:
		s.Clusters[i].Emptied = !s.Clusters[i].Emptied
	case what == 3 && name != "":
		s.Clusters[i].Joins = rapid.SampledFrom([]Joins{JoinsAll, OnlyMirror, JoinsNone, Unreadable}).Draw(t, "joins")
	case what == 4 && len(written) > 0: // a user edits or takes over an object
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

// checkValid checks objects like an API server.
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

// checkSpecified compares the written objects with the result of package spec for this world. The
// contents of each object must equal those of its deciding member.
func (s *sim) checkSpecified(t *rapid.T) {
	specified := s.specified()
	for _, namespace := range []string{"shop", "other", "kube-system"} {
		for _, name := range someNames {
			of := ID{namespace, name}
			for _, link := range someLinks {
				s.compare(t, ID{namespace, name + "-" + link}, specified)
			}
			s.compare(t, ID{namespace, name + "-federated"}, specified)
			s.compareImport(t, of, specified.Imports[spec.ID(of)])
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

// specified returns the result of package spec for the world. Links are ordered by age.
func (s *sim) specified() spec.Written {
	var clusters []spec.Exporter
	for _, name := range append([]string{""}, someLinks...) {
		i := slices.IndexFunc(s.Clusters, func(c Cluster) bool { return c.Name == name })
		if i < 0 {
			continue
		}
		one := spec.Exporter{Name: name}
		for _, e := range s.Clusters[i].Exports {
			one.Exports = append(one.Exports, spec.Export{
				ID:            spec.ID(e.ID),
				Mirror:        e.Mirror,
				Federated:     e.Federated,
				ServiceExport: e.Exported != nil,
				Headless:      e.Service != nil && e.Service.ClusterIPs[0] == "None",
				Unusable:      !exportable(&e),
			})
		}
		clusters = append(clusters, one)
	}
	return spec.WrittenFor(clusters)
}

// compareImport compares a ServiceImport that these clusters export, and the members of its derived
// Service. The type and ports of the ServiceImport may be earlier ones.
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
		names[i] = displayName(names[i])
	}
	if slices.Sort(names); !slices.Equal(o.Clusters, names) {
		t.Fatalf("%v has the clusters %q, want %q", id, o.Clusters, names)
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
			t.Fatalf("%v has the members %q, want %q, and the import the IPs %q", derived.ID, has, clusters, o.IPs)
		}
	}
}

// compare compares a mirror or federated Service.
func (s *sim) compare(t *rapid.T, id ID, specified spec.Written) {
	members := specified.Services[spec.ID(id)]
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
		t.Fatalf("%v has the members %q, want %q", id, has, members)
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
			t.Fatalf("%v has the ports %v, want %q", id, o.Ports, ports)
		}
	}
	const retries = "retry.linkerd.io/http"
	if got, want := o.Annotations[retries], of[0].Service.Annotations[retries]; got != want {
		t.Fatalf("%v: the annotation is %q, not that of the member that decides, %q", id, got, want)
	}
}

// exportable reports whether a cluster may export a Service.
func exportable(e *Export) bool {
	return e.Service != nil && e.Service.Type == "ClusterIP" && e.Service.Labels[mirroredLabel] == ""
}
