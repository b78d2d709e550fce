package manifests

import _ "embed" // RemoteAccess

// RemoteAccess is link/remote-access.yaml: what "isthmus link" makes in the cluster that
// it links, except for names and the token.
//
//go:embed link/remote-access.yaml
var RemoteAccess []byte
