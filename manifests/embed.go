package manifests

import _ "embed" // RemoteAccess

// RemoteAccess contains link/remote-access.yaml, which defines objects for a linked cluster. Before
// the command "isthmus link" creates the objects, it replaces their names, namespaces and labels.
//
//go:embed link/remote-access.yaml
var RemoteAccess []byte
