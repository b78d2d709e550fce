package adminapi

// Impact is /debug/impact?cluster=NAME&standing=STANDING: what the services that a cluster is a
// member of would be left with if it had that standing, which is Withdrawn, LastResort or
// InService; NAME may be local. The gateway finds out by what chooses endpoints for clients.
type Impact struct {
	Cluster  string          `json:"cluster"`
	Standing string          `json:"standing"`
	Services []ServiceImpact `json:"services"` // by name and port
}

// ServiceImpact is what clients of a service port have, and would be left with.
type ServiceImpact struct {
	Service string `json:"service"`
	// Watched: proxies watch the port, and endpoints are counted. Otherwise no port of the service
	// is watched, and each cluster that serves it counts 1.
	Watched bool   `json:"watched"`
	Port    uint16 `json:"port"` // if Watched
	// Zone is that of the clients that are left with least, which Now and Then are about; empty
	// also if all are alike.
	Zone    string `json:"zone,omitempty"`
	Node    string `json:"node,omitempty"`    // of these clients, where it matters
	Streams int    `json:"streams,omitempty"` // of the whole service
	// Now is what these clients get, and Then what they get once the change is over, and any change
	// of tiers that follows from it.
	Now  []ImpactCount `json:"now"`
	Then []ImpactCount `json:"then"`
}

// ImpactCount is how much clients get of a cluster.
type ImpactCount struct {
	Cluster string `json:"cluster"`
	Count   int    `json:"count"`
}

// Bare reports whether clients have something now, and would be left with nothing.
func (i *ServiceImpact) Bare() bool { return Total(i.Now) > 0 && Total(i.Then) == 0 }

// Total sums up what clients get of all clusters.
func Total(list []ImpactCount) (n int) {
	for _, c := range list {
		n += c.Count
	}
	return n
}
