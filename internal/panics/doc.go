// Package panics recovers from panics, so that a panic in one piece of work does not end the
// process.
//
// A [Supervisor] runs functions. A [Work] identifies each function. After a panic, the Supervisor
// counts and logs the panic, and schedules a retry. The first retry starts after [MinPause]. The
// pause doubles with each further panic, up to [MaxPause], until the work succeeds.
//
//	s := panics.New(log)
//	go s.Run(ctx)                             // runs the retries
//	s.Do(work, update, rebuild)               // rebuild is the retry of update
//
// The caller must ensure that retries are safe. A retry must not use any data that the panicking
// function may have left in an inconsistent state. Every lock that a supervised function acquires
// must be released with defer.
package panics
