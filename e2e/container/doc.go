// Package container tests what make image and make build make: it has tests only.
//
// They copy the repository's files to folders of their own, with a commit that has a fixed time, and run make there, with a
// docker that is a shell script. The layout is read by what the OCI's specification has, not by the library that writes it,
// and the program runs with nothing but the image's files.
package container
