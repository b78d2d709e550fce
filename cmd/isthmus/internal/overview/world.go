package overview

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"isthmus/internal/adminapi"
)

// World is the gateway as it is at one moment. It must not be written once it is shown.
type World struct {
	Gateway  Gateway
	Clusters []Cluster // link Secrets that are not used too
	Services []Service // that are federated or mirrored, that proxies watch, or that have problems
	Streams  []Stream
	Events   []adminapi.Event // the newest first

	mu     sync.Mutex
	sorted map[string]any // by table and order: its rows; made when they are first asked for
}

// Gateway is the process.
type Gateway struct {
	Name    string `json:"name"` // of its Pod or machine
	Version string `json:"version"`
	Ready   bool   `json:"ready"`
	Domain  string `json:"domain"` // of the cluster's names
}

// Cluster is a cluster, local or linked.
type Cluster struct {
	Name           string    `json:"name"`
	Secret         string    `json:"secret,omitempty"`
	State          string    `json:"state"`
	Since          time.Time `json:"since,omitzero"`
	Reason         string    `json:"reason,omitempty"` // why it is not ready
	Standing       string    `json:"standing,omitempty"`
	StandingReason string    `json:"standingReason,omitempty"`
	Region         string    `json:"region,omitempty"`
	Network        string    `json:"network,omitempty"` // that it is on, if it is reached through gateways
	Gateways       []Through `json:"gateways,omitempty"`
	Server         string    `json:"server,omitempty"`
	Warnings       []string  `json:"warnings,omitempty"`
}

// Through is an address of a gateway through which a cluster is reached.
type Through struct {
	Address string `json:"address"`
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
}

// severity is how much somebody should look at it.
func (c *Cluster) severity() int {
	switch {
	case c.State == "rejected" || c.State == "unreachable" || c.State == "stale":
		return 3
	case c.State != "ready":
		return 2
	case c.Standing != "" && c.Standing != "in-service" || len(c.Warnings) > 0:
		return 1
	}
	return 0
}

func (c *Cluster) text() string {
	return strings.Join([]string{c.Name, c.State, c.Standing, c.Region, c.Server, c.Secret, c.Reason}, "\n")
}

// MaxMembers is how many members of a service are listed.
const MaxMembers = 12

// Service is a service of the local cluster.
type Service struct {
	Namespace   string   `json:"namespace"`
	Name        string   `json:"name"`
	Kind        string   `json:"kind"`                  // federated, mirrored, plain, or undefined: there is no such Service
	Port        uint16   `json:"port,omitempty"`        // the one that Endpoints are about; 0: no port is known
	Ports       []uint16 `json:"ports,omitempty"`       // all that are known
	Watched     bool     `json:"watched"`               // by proxies: only then the endpoints are known
	Members     []Member `json:"members"`               // [MaxMembers] at most, then those that do not serve first
	MoreMembers int      `json:"moreMembers,omitempty"` // that are not listed
	Serving     int      `json:"serving"`               // how many of all members do
	Endpoints   int      `json:"endpoints"`             // of all members
	Streams     int      `json:"streams"`
	Problems    []string `json:"problems,omitempty"`
	Prefer      string   `json:"prefer,omitempty"` // its tiers; empty: clients simply get everything
	Tiers       []Tiers  `json:"tiers,omitempty"`  // that clients use, by zone, if they don't simply get everything
}

// Member is what a cluster has for a service.
type Member struct {
	Cluster   string `json:"cluster"`
	Service   string `json:"service,omitempty"` // its name there, if it is another
	Endpoints int    `json:"endpoints"`
	Reason    string `json:"reason,omitempty"`   // why it does not serve; empty: it does
	Standing  string `json:"standing,omitempty"` // of the cluster; empty: it is in service
}

// Tiers are those that clients of a zone use.
type Tiers struct {
	Zone  string `json:"zone,omitempty"` // empty: not known
	InUse string `json:"inUse"`
	Count int    `json:"count"`
}

func (s *Service) severity() int {
	switch {
	case s.Streams > 0 && s.Watched && s.Endpoints == 0, s.Serving == 0 && s.Kind == "federated":
		return 3
	case len(s.Problems) > 0 || s.Serving < len(s.Members)+s.MoreMembers && s.Kind != "plain":
		return 2
	case slices.ContainsFunc(s.Tiers, func(t Tiers) bool { return t.Count > 1 }):
		return 1
	}
	return 0
}

func (s *Service) text() string {
	all := []string{s.Namespace + "/" + s.Name, s.Kind}
	for _, m := range s.Members {
		all = append(all, m.Cluster, m.Service, m.Reason)
	}
	return strings.Join(append(all, s.Problems...), "\n")
}

// Stream is a destination that proxies have streams of.
type Stream struct {
	Method      string `json:"method"`
	Destination string `json:"destination"`
	Node        string `json:"node,omitempty"`
	Zone        string `json:"zone,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Streams     int    `json:"streams"`
	Endpoints   int    `json:"endpoints"`
}

func (s *Stream) text() string {
	return strings.Join([]string{s.Destination, s.Method, s.Node, s.Zone, s.Namespace}, "\n")
}

// row is a row of a table.
type row[T any] struct {
	of       *T
	severity int
}

// orders has, by name, how rows of a table can be ordered; the first is that of a page that asks
// for none.
type orders[T any] []struct {
	name    string
	compare func(a, b row[T]) int
}

// rowsOf returns the rows of a table in an order. They are made once for a world.
func rowsOf[T any](w *World, table string, list []T, severity func(*T) int, all orders[T], name string) []row[T] {
	order := all[0]
	for _, one := range all {
		if one.name == name {
			order = one
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sorted == nil {
		w.sorted = make(map[string]any)
	}
	key := table + " " + order.name
	if rows, made := w.sorted[key].([]row[T]); made {
		return rows
	}
	unsorted, made := w.sorted[table].([]row[T])
	if !made {
		unsorted = make([]row[T], len(list))
		for i := range list {
			unsorted[i] = row[T]{&list[i], severity(&list[i])}
		}
		w.sorted[table] = unsorted
	}
	rows := slices.Clone(unsorted)
	slices.SortStableFunc(rows, order.compare)
	w.sorted[key] = rows
	return rows
}

func worstFirst[T any](a, b row[T]) int { return cmp.Compare(b.severity, a.severity) }
