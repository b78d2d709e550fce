// Package check judges what a replica shows on its pages /debug/clusters and /debug/services:
// whether the replica has what it needs, and what to do where it has not. It sends no request.
//
//	results := check.Judge(check.Seen{Clusters: page, Services: services})
//
// Before an installation there is no page: "isthmus check" fills one in by what it reads from here, with FromHere set.
//
// What callers may rely on:
//
//   - Each thing that is wrong has a result of its own, with what to do.
//   - What may not be read is Unchecked, and its hint is how to permit it. A cluster that has not
//     answered has one Failure; its other checks are Unchecked.
//   - Texts are those of the page: whoever prints them makes them printable.
package check
