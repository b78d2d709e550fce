package grpcapi

import (
	"cmp"
	"slices"
	"time"

	"isthmus/federation"
)

// HeldView is what the streams of one view have, of clients that get the same.
type HeldView struct {
	Destination string    `json:"destination"`
	Node        string    `json:"node,omitempty"`
	Zone        string    `json:"zone,omitempty"`
	Streams     int       `json:"streams"`
	Version     uint64    `json:"version"`              // of the newest set
	Endpoints   int       `json:"endpoints"`            // of the newest set
	UpToDate    int       `json:"upToDate"`             // streams that have it, or are being sent it
	Waiting     int       `json:"waiting,omitempty"`    // streams that have been sent nothing yet
	Slow        int       `json:"slow,omitempty"`       // streams whose proxy has not taken a message for a second
	LastMessage time.Time `json:"lastMessage,omitzero"` // to any of them
}

const (
	slowAfter = time.Second
	// maxHeld is how many views of a service are described.
	maxHeld = 100
)

// heldViews describes the views of a service that streams use, and counts those that are
// left out.
func (s *Server) heldViews(svc federation.ServiceID) (list []HeldView, more int) {
	type view struct {
		HeldView
		newest *federation.Set
	}
	views := make(map[*getView]*view)
	now := s.clock(time.Now())
	for _, st := range s.streamsOf(svc) {
		v := st.usedView.Load()
		held := views[v]
		if held == nil {
			set, _ := v.get()
			k := v.key
			held = &view{newest: set, HeldView: HeldView{
				Destination: target{k.Service, k.Client.Instance, k.Port}.authority(s.opts.ClusterDomain),
				Node:        k.Client.Node, Zone: k.Client.Zone, Version: set.Version, Endpoints: len(set.Endpoints),
			}}
			views[v] = held
		}
		held.count(s, st, held.newest, now)
	}
	for _, held := range views {
		list = append(list, held.HeldView)
	}
	slices.SortFunc(list, func(a, b HeldView) int {
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
func (h *HeldView) count(s *Server, st *stream, newest *federation.Set, now int64) {
	h.Streams++
	switch st.heldSet.Load() {
	case nil:
		h.Waiting++
	case newest:
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
