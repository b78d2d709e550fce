// Package facts reads what two clusters are compared by, and when credentials expire. A gateway keeps
// what it reads of each cluster for its page /debug/clusters, by which "isthmus check" judges; before an
// installation "isthmus check" reads the same from here.
//
// What callers may rely on:
//
//   - Keep reads once the API server has answered, and again every so often: nothing is read for whoever looks at a page.
//   - What one cluster answers takes a few megabytes at most while it is read, and some 100 kB that are kept.
//   - No fact has credentials. Error texts are printable and short.
package facts
