package adminapi

// Streams is /debug/streams: what proxies watch, and how many streams share it.
type Streams struct {
	Streams int    `json:"streams"`
	Views   []View `json:"views"` // those with the most streams first
}

// View is what the streams of clients that get the same have in common.
type View struct {
	Method      string `json:"method"`      // Get or GetProfile
	Destination string `json:"destination"` // as in the requests
	Node        string `json:"node,omitempty"`
	Zone        string `json:"zone,omitempty"`
	Namespace   string `json:"namespace,omitempty"` // of clients, where it matters
	Streams     int    `json:"streams"`             // 0: it is idle
	Endpoints   int    `json:"endpoints"`           // that its streams are sent
}
