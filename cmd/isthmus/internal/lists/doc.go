// Package lists searches, sorts and cuts the lists of clusters, services, streams and events that the admin server answers to
// view=list, which the page at / shows.
//
//	s := lists.NewSnapshot(lists.Content{Clusters: clusters, Services: services})
//	q, err := lists.ParseQuery("services", request.URL.Query())
//	answer, err := s.Answer("services", q) // JSON of an adminapi.ServiceList
//
// Guarantees:
//
//   - A line has a severity, and the worst lines are first unless another order is asked for. All lines are searched and sorted
//     before a page of them is cut, which has [MaxLimit] lines at most.
//   - A query that can't be answered is an error that names what can.
//
// A Snapshot is safe for concurrent use. Its content must not be changed.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package lists
