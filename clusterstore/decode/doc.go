// Package decode reads what API servers send of the objects that are followed: object by
// object, as they come, with only those fields that are used. What that takes is bounded by
// construction, so that nothing has to be measured before it is decoded.
//
//	sources := decode.NewSources(httpClient, baseURL)
//	list, err := sources.Pods.List(ctx, options, func(pod *corev1.Pod, refused *decode.Refused) error {
//		… // pod is valid until this returns: keep copies
//	})
//
// What callers may rely on:
//
//   - Of each object is decoded what client-go would decode, of the fields in the kind's table
//     (kinds.go); tests hold the two against each other, and against what is kept. Of annotations those of Linkerd's and Isthmus's domains are
//     used, of managedFields the time of the newest update, of variables those with the addresses
//     of a proxy.
//   - Neither a list nor a page is ever there as a whole. An object that is small (64 KiB) is
//     read into a buffer that all share, a larger one by itself: of one API server one at a time,
//     so that one which pauses within large objects takes the memory of one. A watch in which
//     nothing comes has 1 KiB, and no object.
//   - An object is refused if it is larger than 4 MiB in protobuf, has a list or text beyond its bound, or can't
//     be decoded: the caller learns its name and version, and the answer goes on. Bounds are those
//     of the API's own validation, where it has one. DELETED events and bookmarks are never
//     refused: if need be they have names and a version only.
//   - What no API server sends ends the answer: an object without a name, or with one longer than
//     253 bytes, as no refusal could name it; one larger than 16 MiB, or than 4 MiB of JSON; an answer or
//     event of another kind; a list of more than 256 MiB; 64 KiB of blanks between two values of JSON;
//     Kubernetes' own kinds in JSON. So does a list that is cut off: it is no short list.
//   - ERROR events, and answers with another status than 200, are the error that client-go makes of
//     them. Of both, 64 KiB are decoded.
//   - What is no list, such as API discovery, has 1 MiB at most ([Sources].Document).
//   - JSON is decoded only where it has 50,000 elements and as many members at most: 3 bytes can stand
//     for a struct of a hundred.
//
// Sources are safe for concurrent use. The package starts no goroutine. Decoders, and the memory
// that they use again, are shared by all API servers; what one keeps is bounded (room.go).
//
// Decisions:
//
//   - Tables are made of a text that has what is used, and of the protobuf tags of Kubernetes' own structs, which
//     they set by reflection, because the generated Unmarshal makes all of an object: more than three times the processor time, and 21 kB
//     of garbage for a Pod. A function for each field took as long as reflection, and more lines. A filter over the bytes was
//     tried too: it took too long for what it saved.
//   - Of JSON the ends of values are found here, and all else is encoding/json's. Its Decoder looks through blanks
//     anew with each part that comes, and keeps the memory of the largest value until the list ends: a server that sends blanks kept a processor busy.
//   - Texts are lent from the buffer ([unsafe.String]): most are compared or looked up, and few are
//     kept. Secrets' texts are not lent, since of these most are kept.
//   - Custom resources come in JSON only. They are few, and are decoded as a whole: Linkerd's by package crd, those
//     of the MCS-API into its own types, so that one of which a part has the wrong form is refused.
//
// Linkerd's custom resources ([ServiceProfile], [Server], [ExternalWorkload], [Link]) have Go types with the fields
// that Isthmus reads. They are not imported from Linkerd, whose module would add its control plane's dependencies for
// a few small structs:
//
//   - A malformed spec or status does not make the list unreadable. The malformed part has its zero value; for a spec,
//     Invalid holds the reason.
//   - A spec is read whole or not at all, because half of a policy may mean the opposite of the whole.
//   - Malformed metadata is an error. API servers write and check metadata themselves. A server that does not makes
//     this resource of its own cluster unreadable, and nothing else.
//   - The types are plain data: objects can be read concurrently while nobody writes them.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package decode
