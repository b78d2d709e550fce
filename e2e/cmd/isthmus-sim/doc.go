// Command isthmus-sim runs Isthmus with simulated clusters and clients that change, fail and
// misbehave in an order derived from a seed. It checks continuously that every client is sent the
// right endpoints. See isthmus-sim -help.
package main
