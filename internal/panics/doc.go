// Package panics prevents a panic in one piece of work from ending the process.
//
// A [Supervisor] runs functions, each as one [Work]. After a panic, it counts and logs the panic,
// and schedules a retry. The first retry follows after [MinPause]. Each further pause is twice as
// long, up to [MaxPause], until the work succeeds.
//
//	s := panics.New(log)
//	go s.Run(ctx)                             // runs the retries
//	s.Do(work, update, rebuild)               // rebuild is the retry of update
//
// The caller must make retries safe. After a panic in update, rebuild must not use any state that
// update may have left half changed. Every lock that update takes must be released with defer.
package panics
