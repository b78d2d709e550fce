// Package guard is for who asks a server that may be hostile, once: it bounds what an
// answer may take, and sends credentials nowhere else. The verbs use it for API servers and
// for gateways; what the gateway itself follows has limits of its own (clusterstore/decode),
// where [Limited] bounds each list and document.
//
//	config.Wrap(guard.Transport) // all clients of config, with exec plugins, proxies, upgrades
//	err := json.NewDecoder(guard.JSON(body, limits)).Decode(&page)
//
// What callers may rely on:
//
//   - No redirect is followed, and no token leaves by plain HTTP.
//   - An answer has [MaxAnswer] bytes, a page of a list [MaxList], an error [MaxError], after
//     decompression, and nothing but JSON is decoded: no YAML, whose aliases grow.
//   - The elements of JSON are counted while they come, before anything is decoded: three
//     bytes can stand for a struct of a kilobyte.
//   - What a server's certificate lacks is named ([Certificate]), and so is that the server
//     refuses the client's ([RefusedCertificate]).
//
// How long an answer may take is for the context of the request. The package starts no
// goroutine. A Transport is safe for concurrent use
// if what it wraps is.
package guard
