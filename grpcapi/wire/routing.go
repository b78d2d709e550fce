package wire

import (
	"bytes"
	"runtime"
	"sync"
	"weak"

	"google.golang.org/grpc/mem"

	"isthmus/federation"
)

// maxProfile is the largest message that proxies take. A profile is one message.
const maxProfile = 4 << 20

// maxRouting is how large a routing may be. It leaves room for the rest of a
// profile, which is names and numbers: names in Kubernetes are short.
const maxRouting = maxProfile - 1<<10

// Routing is what a ServiceProfile decides in the profiles of one service port,
// encoded by whoever needs it first. It is shared by all of those.
type Routing struct {
	profile *federation.ServiceProfile
	data    func() mem.SliceBuffer
}

// ServiceProfile returns what the routing is of; nil: the default.
func (r *Routing) ServiceProfile() *federation.ServiceProfile { return r.profile }

// routingKey names a routing. The port is that of overrides without one.
type routingKey struct {
	profile *federation.ServiceProfile
	port    uint16
}

// Routings are those in use, each once. One that nobody holds any more is
// forgotten when the garbage collector finds that out, so that nobody need say
// so. Routings are safe for concurrent use.
type Routings struct {
	tooLarge func(*federation.ServiceProfile, int) // fixed, as is plain
	plain    *Routing                              // of those without ServiceProfile

	mu  sync.Mutex
	all map[routingKey]weak.Pointer[Routing]
}

// NewRoutings returns an empty Routings. tooLarge is called with each
// ServiceProfile with which a profile might be larger than proxies take, and how
// many bytes its routing has: the default is encoded in its place. That happens
// while a profile with the routing is encoded for the first time.
func NewRoutings(tooLarge func(sp *federation.ServiceProfile, bytes int)) *Routings {
	b := bytes.Clone(appendRouting(nil, &federation.ServiceProfile{}, 0))
	return &Routings{
		tooLarge: tooLarge, plain: &Routing{data: func() mem.SliceBuffer { return b }},
		all: make(map[routingKey]weak.Pointer[Routing]),
	}
}

// Of returns the routing of a ServiceProfile (nil: the default). For the same
// ServiceProfile and port it is the same one, for as long as that is held.
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

// forget removes a routing that is no more, unless there is another by now.
func (rs *Routings) forget(k routingKey, w weak.Pointer[Routing]) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.all[k] == w {
		delete(rs.all, k)
	}
}

// encode encodes a routing or, if no proxy would take it, the default.
func (rs *Routings) encode(k routingKey) mem.SliceBuffer {
	b := appendRouting(nil, k.profile, k.port)
	if len(b) > maxRouting {
		rs.tooLarge(k.profile, len(b))
		return rs.plain.data()
	}
	return bytes.Clone(b)
}
