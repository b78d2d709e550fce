// Package state is what a cluster keeps on disk: one folder with its data,
// port, credentials and, while it runs, its process id.
//
// What a folder promises: serving it again is serving the same cluster, at the
// same address and with the same credentials, even after the process was
// killed in the middle of a write.
//
// A cluster runs as long as a process has its port, which the kernel lets go of
// with the process, so that a second server can do no harm. That does not hold
// for two that serve a new folder, which has no port yet, at the same time. And
// credentials appear as a whole, by one rename.
package state
