package manifests

import _ "embed" // RemoteAccess

// RemoteAccess contains link/remote-access.yaml. The command "isthmus link" creates the objects of
// remote-access.yaml in the linked cluster, but replaces the names and the token.
//
//go:embed link/remote-access.yaml
var RemoteAccess []byte
