// Package guard protects HTTP clients from a possibly hostile server. The package limits the size
// of responses, and ensures that credentials are sent only to the server itself. Isthmus commands
// use this package for requests to API servers and replicas. Package clusterstore/decode enforces
// its own limits for lists and watches, and uses [Limited] to limit the total size of a list.
//
//	config.Wrap(guard.Transport) // all clients of config, with exec plugins, proxies, upgrades
//	err := json.NewDecoder(guard.JSON(body, limits)).Decode(&page)
//
// Callers may rely on the following:
//
//   - A client never follows redirects, and never sends a token over plain HTTP.
//   - The size of a response is limited to [MaxAnswer] bytes. The limit is [MaxList] for a page of
//     a list, and [MaxError] for an error. All limits apply after decompression.
//   - A client accepts only JSON responses. With [Sized], a client also accepts protobuf responses.
//     YAML is rejected, because its aliases can expand without limit.
//   - The number of JSON elements is limited before decoding, because three bytes of JSON can
//     become a struct of one kilobyte.
//   - [Certificate] describes what is wrong with a server's certificate. [RefusedCertificate]
//     describes why a server rejected the client's certificate.
//
// The package sets no timeouts. The deadline of a request's context also applies to reading the
// response body. The package does not start goroutines. A Transport is safe for concurrent use if
// the wrapped RoundTripper is.
package guard
