package grpcapi

import (
	"isthmus/federation"
	"isthmus/grpcapi/wire"
)

// profileView is the view of one federation.ProfileKey, shared by all GetProfile
// streams of that key: the newest profile, with its encoded messages.
//
// One profile can have several messages. A ServiceProfile that is rejected takes no
// routes away from proxies: each keeps the routes of that service that it has
// received last. So the message depends on those, and each such variant is encoded
// once for all streams that need it.
type profileView struct {
	viewBase[federation.ProfileKey, *federation.Profile]
	server *Server

	variants []*profileVariant // under mu: all of one profile, the newest that a stream has asked for
}

// profileVariant is a profile with a routing, encoded.
type profileVariant struct {
	profile *federation.Profile
	routing *wire.Routing
	frames  []*wire.Frame // one
}

// sentRoutes are the routes that a proxy has received last, and their service. The
// zero value: none.
type sentRoutes struct {
	service federation.ServiceID
	routes  *federation.ServiceProfile // nil: the default
}

// becomeIdle implements cachedView. It frees the messages, which are cheap to make
// again. The view of a destination that does not exist or is not known is not kept:
// clients can make up any number of names and addresses.
func (v *profileView) becomeIdle() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.variants = nil
	p, _ := v.get()
	if p.Reason != federation.Resolved || p.Endpoint != nil && p.Endpoint.Kind == federation.Address {
		return 0
	}
	return costOfProfile(p)
}

// costOfProfile is about how much memory a view takes. Routes are the ServiceProfile's,
// not the view's.
func costOfProfile(*federation.Profile) int { return viewBytes }

// variant returns the newest profile, as it is sent to a proxy that has received
// those routes, and a channel that is closed once the profile is replaced.
func (v *profileView) variant(last sentRoutes) (newest *profileVariant, replaced <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	p, replaced := v.get()
	routes := p.Routes
	if p.Rejected && last.service == p.Service {
		routes = last.routes
	}
	if len(v.variants) > 0 && v.variants[0].profile != p {
		v.variants = nil
		v.server.countProfile(v.key, p) // streams are about to get another profile
	}
	r := v.server.routings.Of(routes, p.Port)
	for _, x := range v.variants {
		if x.routing == r {
			return x, replaced
		}
	}
	newest = &profileVariant{profile: p, routing: r, frames: []*wire.Frame{v.server.enc.Profile(p, r)}}
	v.variants = append(v.variants, newest)
	return newest, replaced
}
