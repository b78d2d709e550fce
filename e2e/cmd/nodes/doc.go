// Command nodes runs clusters with real nodes, installs the gateway in them as the README has it,
// and prints what clients in Pods notice of what happens to it. See README.md in this folder.
//
// All of it is below one process, which is the first in namespaces of its own for mounts, network
// and processes: what it makes ends with it, however it ends. A node (node.sh) is the same once
// more, and a bridge joins the nodes. The process outside removes what is left: cgroups, and the
// folder of the nodes.
//
// Files: main is the process outside, world the clusters and their nodes, image what nodes run,
// client what runs in Pods, install the gateway, events and moves what happens to it, table what
// comes of that.
package main
