// Command image builds Isthmus's container image from one binary per platform: `make image`.
//
//	image -tag isthmus -version v1 out/image/isthmus-linux-amd64 out/image/isthmus-linux-arm64
//
//	image release -version v0.1.0 -registry registry.example.com/mesh -manifests bin/manifests out/image/isthmus-*
//
// The subcommand release, `make release`, writes a directory with everything that users install
// without a clone: see docs/install.md.
//
// The first form writes an OCI image layout with one index to the directory "layout" beside the
// binaries, and an SBOM for each binary. If a docker daemon is running, the command also loads the
// image for the daemon's platform. Nothing is pushed.
//
// An image contains:
//
//	/isthmus                            the binary, and the entry point
//	/isthmus.cdx.json                   its SBOM
//	/etc/ssl/certs/ca-certificates.crt  Mozilla's root certificates
//	/licenses                           the license and notices of all that is linked in
//
// The platform, build tags, modules and commit come from the build information in each binary. The
// command must therefore run in the source directory of the binaries. The same binaries always
// result in the same image, because all times are those of the commit or of SOURCE_DATE_EPOCH.
package main
