package grpcapi

import (
	"isthmus/federation"
	"isthmus/grpcapi/wire"
)

// profileView is what the clients of one namespace know of one destination, with
// its protobuf: shared by all GetProfile streams with the same key, and never
// written by them.
type profileView struct {
	base[federation.ProfileKey, *federation.Profile]
	enc      *wire.Encoder  // of all profiles
	routings *wire.Routings // of all profiles
	workers  *workers

	told []*told // under mu: all of one profile, the newest that anybody has asked for
}

// told is a profile as it is told to those who have had certain routes.
type told struct {
	profile *federation.Profile
	routing *wire.Routing
	frames  []*wire.Frame // one
}

// had are the routes that a stream's proxy has had last, and whose they are.
type had struct {
	service federation.ServiceID
	routes  *federation.ServiceProfile // nil: the default
}

func newProfileView(k federation.ProfileKey, enc *wire.Encoder, routings *wire.Routings, w *workers) *profileView {
	v := &profileView{enc: enc, routings: routings, workers: w}
	v.key = k
	return v
}

// rest lets go of the messages, which are made again in no time. So is all of a
// view of a destination that is not there, or not known, and may be of a name or
// an address that somebody made up: it is not worth keeping.
func (v *profileView) rest() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.told = nil
	p, _ := v.get()
	if p.Reason != federation.Resolved || p.Endpoint != nil && p.Endpoint.Kind == federation.Address {
		return 0
	}
	const bytes = 1 << 10
	return bytes
}

// tell returns the newest profile as it is told to who has had those routes, and
// a channel that is closed once there is another.
func (v *profileView) tell(before had) (now *told, stale <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	p, stale := v.get()
	routes := p.Routes
	if p.Rejected && before.service == p.Service {
		routes = before.routes
	}
	if len(v.told) > 0 && v.told[0].profile != p {
		v.told = nil
		v.updates++
	}
	r := v.routings.Of(routes, p.Port)
	for _, t := range v.told {
		if t.routing == r {
			return t, stale
		}
	}
	now = v.encode(p, r)
	v.told = append(v.told, now)
	return now, stale
}

func (v *profileView) encode(p *federation.Profile, r *wire.Routing) *told {
	t := &told{profile: p, routing: r}
	v.workers.do(func() { t.frames = []*wire.Frame{v.enc.Profile(p, r)} })
	return t
}
