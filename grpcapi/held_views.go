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

// heldViews describes the views of a service that streams use, and counts those that are
// left out.
func (s *Server) heldViews(svc federation.ServiceID) (list []adminapi.HeldView, more int) {
	for v, streams := range s.streamsOf(svc) {
		list = append(list, s.heldView(v, streams))
	}
	slices.SortFunc(list, func(a, b adminapi.HeldView) int {
		return cmp.Or(cmp.Compare(b.Streams, a.Streams), cmp.Compare(a.Destination, b.Destination), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Zone, b.Zone))
	})
	n := min(len(list), maxHeld)
	return list[:n], len(list) - n
}

// streamsOf returns the Get streams of a service, by view.
func (s *Server) streamsOf(svc federation.ServiceID) map[*getView][]*stream {
	all := make(map[*getView][]*stream)
	s.mu.Lock()
	defer s.mu.Unlock()
	for st := range s.streams {
		if v := st.usedView.Load(); v != nil && v.key.Service == svc {
			all[v] = append(all[v], st)
		}
	}
	return all
}

// heldView describes a view with these streams.
func (s *Server) heldView(v *getView, streams []*stream) adminapi.HeldView {
	newest, _ := v.get()
	k, now := v.key, s.now()
	held := adminapi.HeldView{
		Destination: target{k.Service, k.Client.Instance, k.Port}.authority(s.opts.ClusterDomain),
		Node:        k.Client.Node, Zone: k.Client.Zone, Streams: len(streams), Version: newest.Version, Endpoints: len(newest.Endpoints),
	}
	for _, st := range streams {
		switch st.heldSet.Load() {
		case nil:
			held.Waiting++
		case newest:
			held.UpToDate++
		}
		if since := st.sending.Load(); since != 0 && time.Duration(now-since) >= slowAfter {
			held.Slow++
		}
		if at := st.takenAt.Load(); at != 0 {
			if last := s.began.Add(time.Duration(at)); last.After(held.LastMessage) {
				held.LastMessage = last
			}
		}
	}
	return held
}
