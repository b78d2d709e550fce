package wire

import (
	"runtime"
	"sync"
	"weak"

	"google.golang.org/grpc/mem"

	"isthmus/federation"
)

// maxProfile is the largest message that proxies accept. A profile is one message.
const maxProfile = 4 << 20

// maxRouting is the largest routing. It leaves room for the rest of a profile, which
// is numbers, and names of a length that Kubernetes limits.
const maxRouting = maxProfile - 1<<10

// Routing is the part of a service port's profiles that comes from a ServiceProfile:
// routes, retry budget, traffic splits. That part can be large, while the clients of
// every namespace have a profile of their own. So it is encoded once, when it is
// first needed, and shared by all messages: the order of protobuf fields does not
// matter.
type Routing struct {
	profile *federation.ServiceProfile
	data    func() mem.SliceBuffer
}

// ServiceProfile returns the ServiceProfile that the routing is made of; nil: the
// default.
func (r *Routing) ServiceProfile() *federation.ServiceProfile { return r.profile }

// routingKey identifies a routing. The port is used for overrides without one.
type routingKey struct {
	profile *federation.ServiceProfile
	port    uint16
}

// Routings finds or makes routings, each once. It holds weak pointers only, and
// forgets a routing once the garbage collector has freed it, so routings need not be
// released. It is safe for concurrent use.
type Routings struct {
	tooLarge func(*federation.ServiceProfile, int) // fixed, as is plain
	plain    *Routing                              // without a ServiceProfile

	mu  sync.Mutex
	all map[routingKey]weak.Pointer[Routing]
}

// NewRoutings returns an empty Routings. A ServiceProfile with which a profile might
// be larger than proxies accept is encoded as the default. tooLarge is called with
// it, and with the size of its routing, when a profile with that routing is encoded
// for the first time.
func NewRoutings(tooLarge func(sp *federation.ServiceProfile, bytes int)) *Routings {
	b := marshal(routing(&federation.ServiceProfile{}, 0))
	return &Routings{
		tooLarge: tooLarge, plain: &Routing{data: func() mem.SliceBuffer { return b }},
		all: make(map[routingKey]weak.Pointer[Routing]),
	}
}

// Of returns the routing of a ServiceProfile; nil: the default. For the same pointer
// and port it returns the same Routing for as long as that is referenced.
func (rs *Routings) Of(sp *federation.ServiceProfile, port uint16) *Routing {
	if sp == nil {
		return rs.plain
	}
	k := routingKey{sp, port}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r := rs.all[k].Value(); r != nil {
		return r
	}
	r := &Routing{sp, sync.OnceValue(func() mem.SliceBuffer { return rs.encode(k) })}
	w := weak.Make(r)
	rs.all[k] = w
	runtime.AddCleanup(r, func(k routingKey) { rs.forget(k, w) }, k)
	return r
}

// forget removes a routing that has been freed, unless it has been made anew.
func (rs *Routings) forget(k routingKey, w weak.Pointer[Routing]) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.all[k] == w {
		delete(rs.all, k)
	}
}

// encode encodes a routing or, if it is too large for proxies, the default.
func (rs *Routings) encode(k routingKey) mem.SliceBuffer {
	b := marshal(routing(k.profile, k.port))
	if len(b) > maxRouting {
		rs.tooLarge(k.profile, len(b))
		return rs.plain.data()
	}
	return b
}
