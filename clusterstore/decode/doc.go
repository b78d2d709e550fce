// Package decode decodes the responses of API servers as they arrive, one object at a time, and
// skips all fields that Isthmus does not use. The memory and CPU time per object are limited.
//
//	sources := decode.NewSources(httpClient, baseURL)
//	list, err := sources.Pods.List(ctx, options, func(pod *corev1.Pod, refused *decode.Refused) error {
//		… // pod is valid until this returns: keep copies
//	})
//
// The following rules apply to all responses:
//
//   - The decoded fields (see kinds.go) have the same values as if client-go had decoded them.
//     Tests compare the results with those of client-go.
//   - Only annotations in the domains of Linkerd and Isthmus are decoded. Environment variables are
//     decoded only if they contain a proxy's addresses. From managedFields, only the time of the
//     newest update is decoded.
//   - A list or page is never held in memory as a whole. Objects of up to 64 KiB are read into
//     shared buffers. For each API server, only one object of more than 64 KiB is in memory at a
//     time. An idle watch uses 1 KiB.
//   - An object is refused if its protobuf encoding is larger than 4 MiB, if one of its lists or
//     strings is too long, or if the object cannot be decoded. The caller receives the name and the
//     version of a refused object, and decoding continues with the next object.
//   - If the API's own validation limits a list or a string, the package applies the same limit.
//   - Objects in DELETED and BOOKMARK events are never refused. If the object of a DELETED or
//     BOOKMARK event cannot be decoded, only its name, namespace and version are set.
//   - If a response contains something that no API server sends, the whole response is rejected.
//     Examples are an object of the wrong kind, an object without a name, and an object of a
//     built-in Kubernetes kind that is encoded as JSON. A response is also rejected if it exceeds
//     one of these limits: 253 bytes for a name, 16 MiB for an object that is encoded as protobuf,
//     4 MiB for an object that is encoded as JSON, 256 MiB for a list, and 64 KiB for the white
//     space between two JSON values.
//   - A truncated list is an error.
//   - ERROR events, and responses with a status other than 200, result in the same errors as in
//     client-go. At most 64 KiB of an error response is decoded.
//   - Responses that are not lists, such as those of API discovery, are limited to 1 MiB
//     ([Sources].Document).
//   - A JSON object with more than 50,000 array elements or members is refused, because decoding
//     can multiply its size: 3 bytes of JSON can become a 100-byte struct.
//
// Sources are safe for concurrent use. The package does not start any goroutines. The Sources for
// all API servers share the decoders, which reuse a limited amount of memory (decoder.go).
//
// The following considerations led to the design:
//
//   - The generated Unmarshal methods are not used, because they decode whole objects. Decoding a
//     Pod with the generated methods takes more than three times as much CPU time as with this
//     package, and produces 21 kB of garbage.
//   - This package sets fields through reflection. Tables define which fields are decoded. The
//     tables are built from lists of field names and from the protobuf tags of Kubernetes' own
//     structs. Separate functions for each field were not faster, and filtering the bytes before
//     decoding cost more time than it saved.
//   - For JSON, the package finds only the end of each value, and encoding/json decodes the value.
//     A json.Decoder is not used, because a hostile server could make it scan the same white space
//     again and again. A json.Decoder also keeps a buffer as large as the largest value until the
//     end of the list.
//   - Decoded strings share the buffer's memory ([unsafe.String]), because most strings are only
//     compared or looked up, not stored. The bytes of a Secret are copied first, because most of
//     its strings are cached.
//   - Custom resources, which API servers send only in JSON, are decoded completely, because a
//     cluster has few of them.
//   - MCS-API resources are decoded into the Go types of the MCS-API. If any part of an MCS-API
//     resource is malformed, the whole resource is refused.
//
// This package defines its own types for Linkerd's custom resources ([ServiceProfile], [Server],
// [ExternalWorkload], [Link]). The types contain only the fields that Isthmus reads. Importing
// Linkerd's module would add all dependencies of Linkerd's control plane. The types follow these
// rules:
//
//   - A malformed spec or status is set to its zero value, so that the other objects in the list
//     remain readable. If the spec is malformed, the Invalid field holds the reason.
//   - A spec is decoded completely or not at all, because part of a policy may mean the opposite of
//     the whole policy.
//   - Malformed metadata is an error, because API servers write and check metadata themselves.
//     Malformed metadata makes only one resource in one cluster unreadable.
//   - The types contain only plain data, so concurrent reads are safe.
//
// ARCHITECTURE.md in the module's root shows how the packages work together.
package decode
