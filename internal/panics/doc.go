// Package panics keeps a panic in one piece of work from ending the process.
//
// A [Supervisor] runs functions, each as one [Work]. After a panic it counts and logs the panic, and arranges a retry:
// after [MinPause], then after twice the pause before, up to [MaxPause], until the work succeeds.
//
//	s := panics.New(log)
//	go s.Run(ctx)                             // calls the retries
//	s.Do(work, update, rebuild)               // rebuild is the retry of update
//
// The caller makes a retry safe: after a panic in update, rebuild must not use anything that update may have left
// half changed. Every lock that update takes must be released by defer.
package panics
