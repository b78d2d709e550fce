// Package gateway runs the isthmus binary as a process, as a cluster would: by its flags, its sockets and its signals.
//
//	g, err := gateway.Start(ctx, gateway.Config{Kubeconfig: west.Kubeconfig(), Args: []string{"-pace=0s"}})
//	...
//	defer g.Stop()
//	conn, err := proxy.Dial(g.Addr())
//
// A [Gateway] is ready when Start or Restart returns. It keeps its addresses over restarts, so that clients find it again:
// their ports are reserved until Stop. Its log goes to a bounded buffer, of which the end is part of errors, and where
// wished to a writer too. How its process ends with the one that started it is described in package program.
//
// The methods of a Gateway may be called from several goroutines; Restart and Stop take turns.
package gateway
