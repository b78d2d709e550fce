package grpcapi

import (
	"bytes"

	"go.uber.org/zap"
	"google.golang.org/grpc/mem"

	"isthmus/federation"
)

// maxProfile is the largest message that proxies take. A profile is one message.
const maxProfile = 4 << 20

// profileView is what the clients of one namespace know of one destination, with
// its protobuf: shared by all GetProfile streams with the same key, and never
// written by them.
type profileView struct {
	base[federation.ProfileKey, *federation.Profile]
	enc *encoder // of all profiles
	log *zap.Logger

	// under mu
	told  []*told // all of one profile, the newest that anybody has asked for
	large bool    // it has been said that a profile is too large
}

// told is a profile as it is told to those who have had certain routes.
type told struct {
	profile *federation.Profile
	routes  *federation.ServiceProfile // in place of the profile's; nil: the default
	frame   *frame
}

func newProfileView(k federation.ProfileKey, enc *encoder, log *zap.Logger) *profileView {
	v := &profileView{enc: enc, log: log}
	v.key = k
	return v
}

// weight is nothing for the view of a destination that is not there, or not known:
// it is made again in no time, and may be of a name or an address that somebody
// made up.
func (v *profileView) weight() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	p, _ := v.get()
	if p.Reason != federation.Told || p.Endpoint != nil && p.Endpoint.Kind == federation.Address {
		return 0
	}
	const bytes = 1 << 10 // without messages
	sum := bytes
	for _, t := range v.told {
		sum += len(t.frame.bytes())
	}
	return sum
}

// tell returns the newest profile as it is told to who has been told that before
// (nil: nothing), and a channel that is closed once there is another.
func (v *profileView) tell(before *told) (now *told, stale <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	p, stale := v.get()
	routes := p.Routes
	if p.Rejected && before != nil && before.profile.Service == p.Service {
		routes = before.routes
	}
	if len(v.told) > 0 && v.told[0].profile != p {
		v.told = nil
		v.updates++
	}
	for _, t := range v.told {
		if t.routes == routes {
			return t, stale
		}
	}
	now = &told{p, routes, v.render(p, routes)}
	v.told = append(v.told, now)
	return now, stale
}

// render encodes a profile with these routes or, if no proxy would take them,
// with the default. v.mu is held.
func (v *profileView) render(p *federation.Profile, routes *federation.ServiceProfile) *frame {
	b := v.enc.appendProfile(nil, p, routes)
	if routes != nil && len(b) > maxProfile {
		if !v.large {
			v.log.Warn("ServiceProfile is too large for proxies: they get the default",
				zap.String("profile", routes.Namespace+"/"+routes.Name), zap.Int("bytes", len(b)))
		}
		v.large = true
		b = v.enc.appendProfile(nil, p, nil)
	}
	return &frame{mem.BufferSlice{mem.SliceBuffer(bytes.Clone(b))}}
}
