package federation

// ServiceState says what a cluster holds under a service's name.
type ServiceState uint8

const (
	// Missing: the cluster has no such Service.
	Missing ServiceState = iota
	// Present: it has, endpoints or not.
	Present
	// ExternalName: it has one of type ExternalName, which has no endpoints
	// that could be served.
	ExternalName
)

// Slice is a part of a Share that changes as a whole: the endpoints of one
// EndpointSlice for one port. It is immutable; a source hands out the same
// pointer for as long as nothing in it has changed.
type Slice struct {
	Endpoints []*Endpoint // sorted by Addr, one per Addr
}

// Share is what one cluster offers of a service port.
type Share struct {
	State     ServiceState
	NodeLocal bool     // the Service's own internalTrafficPolicy is Local
	Slices    []*Slice // the order settles which slice wins an address; empty ones may be left out
}

// Source is a cluster's current state. It is safe for concurrent use and never
// calls back into the Table.
type Source interface {
	// State says what the cluster holds under that name, now.
	State(ServiceID) ServiceState
	// Reader prepares to read one service port. It registers nothing: a
	// Reader that is not used any more is garbage.
	Reader(ServiceID, uint16) Reader
}

// Reader reads one service port of one cluster, again and again. It may keep
// what it read last, to hand out unchanged Slices again. It is used by one
// goroutine at a time.
type Reader interface {
	Read() Share
}

// LinkState says how far a linked cluster is.
type LinkState uint8

const (
	// Unlinked: no usable link names this cluster.
	Unlinked LinkState = iota
	// Pending: linked and still starting; worth waiting for.
	Pending
	// Unreachable: linked, nothing known yet, and not to be waited for.
	Unreachable
	// Ready: its state is known. It stays ready when its API is lost.
	Ready
)

func (s LinkState) String() string {
	return [...]string{"unlinked", "pending", "unreachable", "ready"}[s]
}
