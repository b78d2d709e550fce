package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// start is when worlds of tests begin.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// sim is a cluster to which plans are applied, as an API server and the writer would.
type sim struct {
	World
	memory Memory
	last   *Plan
	uids   int
	writes []string                // since they were last looked at
	refuse func(write string) bool // nil: no write fails
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
		c.Seen, c.SeenServiceExports, c.Domain, c.Allow, c.Age = true, true, "cluster.local", all, start.Add(
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

// export is a Service web of the namespace shop: how it is exported ("federated", "mirror", "import"), and its ports as
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

// pass makes one plan and applies it. It reports whether anything was written.
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

// refused reports whether a write fails. One that does not is recorded.
func (s *sim) refused(write string) bool {
	if s.refuse != nil && s.refuse(write) {
		return true
	}
	s.writes = append(s.writes, write)
	return false
}

// writesImports reports whether ServiceImports are among what has been written.
func (s *sim) writesImports() bool {
	return slices.ContainsFunc(s.writes, func(write string) bool { return strings.Contains(write, "import ") })
}

func (s *sim) uid() string { s.uids++; return fmt.Sprint(s.uids) }

// settle makes plans until nothing is written, and returns what was.
func (s *sim) settle(t testing.TB) []string {
	t.Helper()
	s.writes = nil
	for n := 0; s.pass(); n++ {
		if n == 10 {
			t.Fatalf("plans do not come to rest: %q", s.writes)
		}
	}
	return s.writes
}

// settleSoon settles when a ServiceExport that has gone is known to have.
func (s *sim) settleSoon(t testing.TB) {
	s.settle(t)
	s.Now = s.Now.Add(kindTime)
	s.settle(t)
}

// service describes a Service of the own cluster: its ports, and its members or the cluster that it mirrors.
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
		clusters[i] = shown(clusters[i])
	}
	return strings.Join(text, ",") + " of " + strings.Join(clusters, ",")
}

// states lists what becomes of the exports: cluster/name kind: state.
func (s *sim) states() string {
	var all []string
	for _, v := range s.last.Verdicts {
		all = append(all, fmt.Sprintf("%s/%s %s: %s", shown(v.Cluster), v.Export.Name, v.Kind, v.State))
	}
	return strings.Join(all, "; ")
}

func (s *sim) want(t testing.TB, name, what string) {
	t.Helper()
	if got := s.service(name); got != what {
		t.Errorf("%s is %s, not %s (%s)", name, got, what, s.states())
	}
}
