// Package guard protects a client that sends single requests to a server that may be hostile. It
// bounds the size of responses, and sends credentials only to the server itself. Commands use it
// for API servers and replicas. API objects that a replica watches have their own limits in package
// clusterstore/decode, which uses [Limited] to bound each list and document.
//
//	config.Wrap(guard.Transport) // all clients of config, with exec plugins, proxies, upgrades
//	err := json.NewDecoder(guard.JSON(body, limits)).Decode(&page)
//
// Callers may rely on the following:
//
//   - Redirects are not followed, and no token is sent over plain HTTP.
//   - A response is limited to [MaxAnswer] bytes, a page of a list to [MaxList], and an error to
//     [MaxError]. The limits apply after decompression.
//   - Only JSON is decoded. YAML is rejected, because its aliases can expand without limit.
//   - The elements of JSON are counted before they are decoded, because three bytes can decode to a
//     struct of a kilobyte.
//   - [Certificate] says what is wrong with a server's certificate. [RefusedCertificate] says that
//     the server rejects the client's certificate.
//
// The context of a request limits how long a response may take. The package starts no goroutines. A
// Transport is safe for concurrent use if the RoundTripper that it wraps is.
package guard
