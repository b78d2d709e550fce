package adminapi

// Build is /debug/version: what a gateway was built from.
type Build struct {
	Version string `json:"version"` // such as v0.1.0, or unknown
	Commit  string `json:"commit"`
	Go      string `json:"go"` // the version of Go
}
