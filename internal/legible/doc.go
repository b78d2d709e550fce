// Package legible makes texts that clusters, clients and users have written fit to be logged, shown on pages and printed
// by a terminal, which obeys some characters.
package legible
