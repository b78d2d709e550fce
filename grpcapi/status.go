package grpcapi

import (
	"cmp"
	"slices"

	"isthmus/federation"
)

// ViewStatus tells about what some streams share, for people.
type ViewStatus struct {
	Method      string `json:"method"`      // Get or GetProfile
	Destination string `json:"destination"` // what was asked for
	Node        string `json:"node,omitempty"`
	Zone        string `json:"zone,omitempty"`
	Namespace   string `json:"namespace,omitempty"` // of clients, where it matters
	Streams     int    `json:"streams"`             // 0: it is kept for the next one
	Endpoints   int    `json:"endpoints"`           // that a proxy sees

	Service federation.ServiceID `json:"-"` // the zero value: it is an address
}

// Views lists what streams share, those that most share first.
func (s *Server) Views() []ViewStatus {
	var list []ViewStatus
	for _, u := range s.sets.list() {
		k := u.key
		list = append(list, ViewStatus{
			Method: "Get", Destination: target{k.Service, k.Client.Instance, k.Port}.authority(s.opts.ClusterDomain),
			Node: k.Client.Node, Zone: k.Client.Zone, Streams: u.streams, Endpoints: len(u.newest.Endpoints), Service: k.Service,
		})
	}
	for _, u := range s.profiles.list() {
		v := ViewStatus{Method: "GetProfile", Namespace: u.key.Namespace, Streams: u.streams, Service: u.key.Service}
		if v.Destination = u.key.Addr.String(); !u.key.Addr.IsValid() {
			v.Destination = targetOf(u.key).authority(s.opts.ClusterDomain)
		}
		if u.newest.Endpoint != nil {
			v.Endpoints = 1
		}
		list = append(list, v)
	}
	slices.SortStableFunc(list, func(a, b ViewStatus) int {
		return cmp.Or(cmp.Compare(b.Streams, a.Streams), cmp.Compare(a.Destination, b.Destination), cmp.Compare(a.Method, b.Method),
			cmp.Compare(a.Node, b.Node), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Namespace, b.Namespace))
	})
	return list
}

// use is a view that watches, and what it shows.
type use[K comparable, T any] struct {
	key     K
	streams int // 0: it is idle
	newest  T
	updates uint64 // how often that has changed, as far as its streams know
}

// list tells about all views that watch.
func (vs *views[K, T, V]) list() []use[K, T] {
	vs.mu.Lock()
	all := make([]*base[K, T], 0, len(vs.all))
	list := make([]use[K, T], 0, len(vs.all))
	for k, v := range vs.all {
		b := v.root()
		all, list = append(all, b), append(list, use[K, T]{key: k, streams: b.refs})
	}
	vs.mu.Unlock()
	watching := list[:0]
	for i, b := range all {
		b.mu.Lock()
		watch, updates := b.watch, b.updates
		b.mu.Unlock()
		if watch == nil {
			continue // not yet
		}
		u := list[i]
		u.newest, _ = watch.Get()
		u.updates = updates
		watching = append(watching, u)
	}
	return watching
}
