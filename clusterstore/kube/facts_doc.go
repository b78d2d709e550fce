// Package facts reads what two clusters are compared by, and when credentials expire. A gateway keeps
// what it reads of each cluster for its page /debug/clusters, by which "isthmus check" judges; before an
// installation "isthmus check" reads the same from here.
//
// What callers may rely on:
//
//   - A [Keeper] reads once the API server has answered, and again every hour.
//     Nothing is read for whoever looks at a page.
//   - "isthmus check" looks: [Keeper.Look] reads trust anchors again that are 10 s old or more, and Nodes a minute
//     after the last time, in the Keeper's own context. Eight clusters are looked at at a time. A cluster that does not
//     answer in 10 s is left alone for a minute.
//   - What one cluster answers takes a few megabytes at most while it is read, and some 100 kB that are kept.
//   - No fact has credentials. Error texts are printable and short.
package kube
