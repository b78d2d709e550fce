package manifests

import _ "embed" // RemoteAccess

// RemoteAccess holds link/remote-access.yaml. Except for names and the token, these are the objects
// that "isthmus link" creates in the linked cluster.
//
//go:embed link/remote-access.yaml
var RemoteAccess []byte
