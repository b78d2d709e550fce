// Package decode decodes the responses of API servers. While a response arrives, the package
// decodes one object at a time and skips all fields that Isthmus does not use. Both the memory and
// the CPU time per object are limited.
//
//	sources := decode.NewSources(httpClient, baseURL)
//	list, err := sources.Pods.List(ctx, options, func(pod *corev1.Pod, refused *decode.Refused) error {
//		… // pod is valid until this returns: keep copies
//	})
//
// Callers may rely on the following:
//
//   - The decoded fields (kinds.go) have the same values that client-go would decode. Tests compare
//     the results of this package with those of client-go.
//   - The package only decodes annotations in the domains of Linkerd and Isthmus. The package only
//     decodes environment variables that contain a proxy's addresses. From managedFields, the
//     package only decodes the time of the newest update.
//   - A list or page is never held in memory as a whole. Objects of up to 64 KiB are read into
//     shared buffers. Only one larger object per API server is in memory at a time, even if the
//     server pauses within many large objects. An idle watch uses 1 KiB.
//   - An object is refused if it is larger than 4 MiB in protobuf, contains a list or string that
//     exceeds a limit, or cannot be decoded. The caller receives the name and the version of a
//     refused object, and decoding continues with the next object.
//   - If the API's own validation limits a list or a string, the package applies the same limit.
//   - Objects of DELETED and BOOKMARK events are never refused, but may only contain names and a
//     version.
//   - A response ends with an error if it contains something that no API server sends. Examples of
//     such contents are an object of the wrong kind, an object without a name, and a name longer
//     than 253 bytes. Other unacceptable contents are an object larger than 16 MiB, a JSON object
//     larger than 4 MiB, and a list larger than 256 MiB. A response also ends with an error if it
//     contains 64 KiB of white space between two JSON values, or a built-in Kubernetes kind in
//     JSON.
//   - A truncated list results in an error.
//   - ERROR events, and responses with a status other than 200, result in the same errors as in
//     client-go. The package decodes at most 64 KiB of an error.
//   - Responses that are not lists, such as those of API discovery, are limited to 1 MiB
//     ([Sources].Document).
//   - A JSON object with more than 50,000 elements or members is refused, because 3 bytes of JSON
//     can become a struct of 100 bytes.
//
// Sources are safe for concurrent use. The package does not start any goroutines. The sources of
// all API servers share the decoders, which reuse a limited amount of memory (decoder.go).
//
// The design has the following reasons:
//
//   - The package uses tables that set fields with reflection. A table is built from a string that
//     names the decoded fields, and from the protobuf tags of Kubernetes' own structs.
//   - The generated Unmarshal methods are not used, because they decode whole objects. Decoding a
//     whole Pod takes more than three times the CPU time and produces 21 kB of garbage.
//   - Reflection sets the fields, because a separate function for each field was not faster and
//     needed more code. The encoded bytes are not filtered before decoding, because filtering cost
//     more time than it saved.
//   - For JSON, this package only finds where each value ends, and encoding/json decodes the value.
//     A json.Decoder is not used, because it scans white space again whenever data arrives, so that
//     a hostile server could keep a CPU busy. A json.Decoder also retains the memory of the largest
//     value until the list ends.
//   - Decoded strings share the memory of the buffer ([unsafe.String]), because most strings are
//     only compared or looked up. The bytes of Secrets are copied first, because most of them are
//     cached.
//   - API servers only send custom resources in JSON. Each custom resource is decoded as a whole,
//     because a cluster has few custom resources. Linkerd's resources are decoded into types of
//     this package. Resources of the MCS-API are decoded into the types of the MCS-API.
//   - An object of the MCS-API is refused if any part of it is malformed.
//
// Linkerd's custom resources ([ServiceProfile], [Server], [ExternalWorkload], [Link]) are decoded
// into types of this package, which only contain the fields that Isthmus reads. Importing Linkerd's
// module instead would add all dependencies of Linkerd's control plane. The types follow these
// rules:
//
//   - An object with a malformed spec or status does not make its list unreadable. The malformed
//     spec or status is set to its zero value. If the spec is malformed, the Invalid field holds
//     the reason.
//   - A spec is decoded completely or not at all, because one half of a policy may mean the
//     opposite of the whole policy.
//   - Malformed metadata is an error, because API servers write and check metadata themselves.
//     Malformed metadata makes a single resource unreadable, in a single cluster.
//   - The types contain only plain data. Concurrent reads of an object are safe as long as no
//     goroutine writes to it.
//
// ARCHITECTURE.md in the module's root shows how the packages work together.
package decode
