package grpcapi

import (
	"cmp"
	"slices"
	"time"

	"isthmus/federation"
	"isthmus/internal/adminapi"
)

const (
	slowAfter = time.Second
	// maxHeld is how many views of a service are described.
	maxHeld = 100
)

// heldView is a HeldView while its streams are counted.
type heldView struct {
	adminapi.HeldView
	newest *federation.Set
}

// heldViews describes the views of a service that streams use, and counts those that are
// left out.
func (s *Server) heldViews(svc federation.ServiceID) (list []adminapi.HeldView, more int) {
	views := make(map[*getView]*heldView)
	now := s.now()
	for _, st := range s.streamsOf(svc) {
		v := st.usedView.Load()
		held := views[v]
		if held == nil {
			set, _ := v.get()
			k := v.key
			held = &heldView{newest: set, HeldView: adminapi.HeldView{
				Destination: target{k.Service, k.Client.Instance, k.Port}.authority(s.opts.ClusterDomain),
				Node:        k.Client.Node, Zone: k.Client.Zone, Version: set.Version, Endpoints: len(set.Endpoints),
			}}
			views[v] = held
		}
		held.count(s, st, now)
	}
	for _, held := range views {
		list = append(list, held.HeldView)
	}
	slices.SortFunc(list, func(a, b adminapi.HeldView) int {
		return cmp.Or(cmp.Compare(b.Streams, a.Streams), cmp.Compare(a.Destination, b.Destination), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Zone, b.Zone))
	})
	n := min(len(list), maxHeld)
	return list[:n], len(list) - n
}

// streamsOf returns the Get streams of a service.
func (s *Server) streamsOf(svc federation.ServiceID) (list []*stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for st := range s.streams {
		if v := st.usedView.Load(); v != nil && v.key.Service == svc {
			list = append(list, st)
		}
	}
	return list
}

// count counts a stream of the view.
func (h *heldView) count(s *Server, st *stream, now int64) {
	h.Streams++
	switch st.heldSet.Load() {
	case nil:
		h.Waiting++
	case h.newest:
		h.UpToDate++
	}
	if since := st.sending.Load(); since != 0 && time.Duration(now-since) >= slowAfter {
		h.Slow++
	}
	if at := st.takenAt.Load(); at != 0 {
		if last := s.began.Add(time.Duration(at)); last.After(h.LastMessage) {
			h.LastMessage = last
		}
	}
}
