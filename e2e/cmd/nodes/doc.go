// Command nodes runs clusters with real nodes, installs Isthmus as described in the README, and
// prints how disruptions affect clients in Pods. See README.md in this directory.
//
// The command runs itself again as the first process in new mount, network and process namespaces,
// so that everything inside ends with that process. A node (node.sh) does the same again, and a
// bridge connects the nodes. The outer process removes the remaining cgroups and the nodes'
// directory.
package main
