package manifests

import _ "embed" // RemoteAccess

// RemoteAccess contains link/remote-access.yaml. The command "isthmus link" creates the objects
// defined in remote-access.yaml in the linked cluster, but replaces the names, namespaces and
// labels of the objects.
//
//go:embed link/remote-access.yaml
var RemoteAccess []byte
