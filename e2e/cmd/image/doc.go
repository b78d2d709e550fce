// Command image makes the gateway's container image of its binaries, one for each platform: `make image`.
//
//	image -tag isthmus -version v1 out/image/isthmus-linux-amd64 out/image/isthmus-linux-arm64
//
//	image release -version v0.1.0 -registry registry.example.com/mesh -manifests bin/manifests out/image/isthmus-*
//
// The second, `make release`, writes a folder with all that users install without a clone: docs/install.md.
//
// Beside the binaries the first writes the folder layout, an OCI image layout with one index, and
// for each binary an SBOM. Where a docker daemon answers it is also given the image for its
// platform. Nothing is pushed.
//
// What an image has:
//
//	/isthmus                            the binary, and the entry point
//	/isthmus.cdx.json                   its SBOM
//	/etc/ssl/certs/ca-certificates.crt  Mozilla's root certificates
//	/licenses                           the licence and notices of all that is linked in
//
// All is taken from what the Go tool has noted in the binary: platform, build tags, modules,
// commit. So the working directory must be the one that it was built in. The same binaries make the
// same bytes, everywhere: times are those of the commit, or of SOURCE_DATE_EPOCH.
package main
