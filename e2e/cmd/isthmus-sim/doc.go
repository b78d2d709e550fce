// Command isthmus-sim lets a gateway run amid clusters and clients that change, fail and misbehave, as a seed says, and
// checks all along that every client is told what it should be. See isthmus-sim -help.
package main
