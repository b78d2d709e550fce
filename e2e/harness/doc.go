// Package harness starts the processes and stand-ins that tests, cases, benchmarks and the demo
// need. It does not import code of Isthmus itself: it runs Isthmus as a process and reads its admin
// server over HTTP.
//
// Processes:
//
//   - A [Program] is a command from this repository, or a tool that this repository uses. Path
//     builds the program, or returns the file in the program's environment variable.
//   - A [Process] is a child process. It never outlives its parent.
//   - A [Cluster] is a real Kubernetes control plane on loopback, run as one process of the
//     controlplane command.
//   - A [Replica] is one Isthmus process. [GetPage], [ReadPage], [ReadClusters] and [ReadMetrics]
//     read its admin server.
//   - [CPUTime], [ReadMemory] and [PeakMemory] measure a process, and [MachineBusy] measures the
//     machine's CPU usage.
//
// Stand-ins:
//
//   - A [FaultProxy] disturbs TCP connections. [Intercept] handles or forwards HTTP requests in
//     front of an API server.
//   - A [LinkerdGateway] responds to the probes for a multicluster gateway.
//   - A [Kubelet] is a Node that forwards ports and executes commands.
//
// [Poll] waits for a condition, [ReservePort] reserves a port, and [Main] runs a command of this
// module. Package kube builds Kubernetes objects and writes them to API servers. Package assets
// finds prebuilt API servers.
package harness
