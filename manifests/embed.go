package manifests

import _ "embed" // RemoteAccess

// RemoteAccess contains link/remote-access.yaml. Except for the names and the token, "isthmus link"
// creates the objects in this file in the linked cluster.
//
//go:embed link/remote-access.yaml
var RemoteAccess []byte
