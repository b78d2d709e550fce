package grpcapi

import (
	"bytes"
	"runtime"
	"sync"
	"weak"

	"go.uber.org/zap"
	"google.golang.org/grpc/mem"

	"isthmus/federation"
)

// maxProfile is the largest message that proxies take. A profile is one message.
const maxProfile = 4 << 20

// maxRouting is how large a routing may be. It leaves room for the rest of a
// profile, which is names and numbers: names in Kubernetes are short.
const maxRouting = maxProfile - 1<<10

// routing is what a ServiceProfile decides in the profiles of one service port,
// encoded by whoever asks first. It is shared by all of those.
type routing struct {
	profile *federation.ServiceProfile // nil: the default
	data    func() mem.SliceBuffer
}

// routingKey names a routing. The port is that of overrides without one.
type routingKey struct {
	profile *federation.ServiceProfile
	port    uint16
}

// routings are those in use, each once. One that nobody holds any more is
// forgotten when the garbage collector finds that out, so that streams and views
// need not say so.
type routings struct {
	log   *zap.Logger // fixed, as is plain
	plain *routing    // of those without ServiceProfile

	mu  sync.Mutex
	all map[routingKey]weak.Pointer[routing]
}

func newRoutings(log *zap.Logger) *routings {
	b := bytes.Clone(appendRouting(nil, &federation.ServiceProfile{}, 0))
	return &routings{
		log: log, plain: &routing{data: func() mem.SliceBuffer { return b }},
		all: make(map[routingKey]weak.Pointer[routing]),
	}
}

// of returns the routing of a ServiceProfile (nil: the default).
func (rs *routings) of(sp *federation.ServiceProfile, port uint16) *routing {
	if sp == nil {
		return rs.plain
	}
	k := routingKey{sp, port}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r := rs.all[k].Value(); r != nil {
		return r
	}
	r := &routing{sp, sync.OnceValue(func() mem.SliceBuffer { return rs.encode(k) })}
	w := weak.Make(r)
	rs.all[k] = w
	runtime.AddCleanup(r, func(k routingKey) { rs.forget(k, w) }, k)
	return r
}

// forget removes a routing that is no more, unless there is another by now.
func (rs *routings) forget(k routingKey, w weak.Pointer[routing]) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.all[k] == w {
		delete(rs.all, k)
	}
}

// encode encodes a routing or, if no proxy would take it, the default.
func (rs *routings) encode(k routingKey) mem.SliceBuffer {
	b := appendRouting(nil, k.profile, k.port)
	if len(b) > maxRouting {
		rs.log.Warn("ServiceProfile is too large for proxies: they get the default",
			zap.String("profile", k.profile.Namespace+"/"+k.profile.Name), zap.Int("bytes", len(b)))
		return rs.plain.data()
	}
	return bytes.Clone(b)
}
