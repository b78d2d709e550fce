package adminapi

// Format is the number of the format of all pages. It grows with each change by which a program of an older version
// would misjudge a page: the meaning of a field changes, or a field is removed. A new field alone does not change it.
const Format = 1

// Headers of all answers under /debug. A gateway that sends none of them is older than they are.
const (
	FormatHeader  = "Isthmus-Format"
	VersionHeader = "Isthmus-Version" // Version of a Build
	CommitHeader  = "Isthmus-Commit"  // Commit of a Build
)

// Build is /debug/version: what a gateway was built from.
type Build struct {
	Version string `json:"version"` // such as v0.1.0, or unknown
	Commit  string `json:"commit"`
	Go      string `json:"go"` // the version of Go
	// Format is [Format]. Zero means that the gateway is older than this field.
	Format int `json:"format,omitempty"`
}
