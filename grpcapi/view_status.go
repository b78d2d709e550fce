package grpcapi

import (
	"cmp"
	"slices"

	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// ViewStatus describes a view, for debug pages.
type ViewStatus struct {
	adminapi.View
	Service federation.ServiceID // zero: the destination is an address
}

// Views lists all views, those with the most streams first.
func (s *Server) Views() []ViewStatus {
	var list []ViewStatus
	for _, u := range s.getViews.uses() {
		k := u.key
		list = append(list, ViewStatus{Service: k.Service, View: adminapi.View{
			Method: "Get", Destination: target{k.Service, k.Client.Instance, k.Port}.authority(s.opts.ClusterDomain),
			Node: k.Client.Node, Zone: k.Client.Zone, Streams: u.streams, Endpoints: len(u.newest.Endpoints),
		}})
	}
	for _, u := range s.profileViews.uses() {
		v := ViewStatus{Service: u.key.Service, View: adminapi.View{Method: "GetProfile", Namespace: u.key.Namespace, Streams: u.streams}}
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
