// Package harness runs what tests, scenarios, benchmarks and the demo need around Isthmus. It imports nothing of the
// product: Isthmus is a process that the package starts, stops and reads over HTTP.
//
// Processes:
//
//   - A [Program] is a command of the repository, or a tool that it depends on. Path builds it, or
//     returns the file that the environment names.
//   - A [Process] is a running child process. It never outlives the process that started it.
//   - A [Cluster] is a real Kubernetes control plane on loopback: one process of the controlplane command.
//   - A [Replica] is one process of isthmus. [GetPage], [ReadPage], [ReadClusters] and
//     [ReadMetrics] read its admin server.
//   - [CPUTime], [ReadMemory] and [PeakMemory] return what a process costs, [MachineBusy] how busy the machine is.
//
// Stand-ins:
//
//   - A [FaultProxy] spoils TCP connections. [Intercept] sees HTTP requests before an API server does.
//   - A [LinkerdGateway] answers the probes of a multicluster gateway.
//   - A [Kubelet] is a Node that forwards ports and executes commands.
//
// [Poll] waits for a condition, [ReservePort] reserves a port, [Main] runs a command of this
// module. Package kube builds Kubernetes objects and writes them to API servers. Package assets
// finds ready-made API servers.
package harness
