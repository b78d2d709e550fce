// Command isthmus-sim lets a gateway run amid clusters and clients that change, fail and misbehave,
// as follows from a seed, and checks all along that every client is sent what it should be. See
// isthmus-sim -help.
package main
