// Package decode decodes the responses of API servers. Objects are decoded one at a time while the
// response arrives, and only the fields that Isthmus uses. Its design bounds the memory and the
// work for each object.
//
//	sources := decode.NewSources(httpClient, baseURL)
//	list, err := sources.Pods.List(ctx, options, func(pod *corev1.Pod, refused *decode.Refused) error {
//		… // pod is valid until this returns: keep copies
//	})
//
// What callers may rely on:
//
//   - Of each object, the fields in the kind's table (kinds.go) have the values that client-go
//     would decode. Tests compare the two, and also the cached results. Only the annotations of
//     Linkerd's and Isthmus's domains are decoded, only the newest update time of managedFields,
//     and only the environment variables with a proxy's addresses.
//   - Memory never holds a whole list or page. An object of up to 64 KiB is read into a shared
//     buffer. Larger objects are read one at a time for each API server, so that a server which
//     pauses within large objects takes the memory of one. An idle watch takes 1 KiB.
//   - An object is refused if it is larger than 4 MiB in protobuf, exceeds the limit of a list or
//     text, or can't be decoded. The caller gets its name and version, and the response continues.
//     Limits are those of the API's own validation, where it has them. DELETED events and bookmarks
//     are never refused, but may only have names and a version.
//   - A response that no API server sends ends with an error. Examples are an object without a name
//     or with a name longer than 253 bytes, and an object of another kind. An object larger than 16
//     MiB, or than 4 MiB of JSON, and a list larger than 256 MiB are errors too. So are 64 KiB of
//     white space between two JSON values, and Kubernetes' own kinds in JSON. A truncated list is
//     an error too.
//   - ERROR events, and responses with a status other than 200, become the same errors as in
//     client-go. At most 64 KiB of them are decoded.
//   - Responses that are not lists, such as API discovery, have 1 MiB at most ([Sources].Document).
//   - JSON is refused if it has more than 50,000 elements or more than 50,000 members, because 3
//     bytes can become a struct of a hundred.
//
// Sources are safe for concurrent use. The package starts no goroutine. All API servers share the
// decoders and their reused memory, which is limited (decoder.go).
//
// Reasons for the design:
//
//   - A table is built from a text that lists the used fields, and from the protobuf tags of
//     Kubernetes' own structs. It sets the fields by reflection. The generated Unmarshal methods
//     decode whole objects, which takes more than three times the processor time, and 21 kB of
//     garbage for a Pod. A function for each field was not faster than reflection, and took more
//     code. Filtering the bytes first cost more time than it saved.
//   - For JSON, this package only finds where values end, and encoding/json decodes them. The
//     Decoder of encoding/json is not used. The Decoder rescans white space with each part that
//     arrives, so that a server could keep a processor busy. The Decoder also holds the memory of
//     the largest value until the list ends.
//   - Strings share the memory of the buffer ([unsafe.String]), because most are only compared or
//     looked up. The bytes of Secrets are copied first, because most of them are cached.
//   - Custom resources only exist in JSON. They are few, and are decoded as a whole: Linkerd's into
//     the types of this package, and those of the MCS-API into its own types. An object of the
//     MCS-API with a malformed part is refused.
//
// Linkerd's custom resources ([ServiceProfile], [Server], [ExternalWorkload], [Link]) have their
// own Go types, with the fields that Isthmus reads. Importing Linkerd's module would add the
// dependencies of its control plane for a few small structs:
//
//   - A malformed spec or status does not make the list unreadable. The malformed part has its zero
//     value. For a spec, Invalid holds the reason.
//   - A spec is decoded completely or not at all, because half of a policy may mean the opposite of
//     the whole.
//   - Malformed metadata is an error, because API servers write and check metadata themselves. It
//     makes the resource of that one cluster unreadable, and nothing else.
//   - The types are plain data. Objects are safe for concurrent reads while nobody writes them.
//
// ARCHITECTURE.md in the module's root shows how the packages work together.
package decode
