package main

import (
	"regexp"
	"slices"
)

// listed are the differences between the previous version and this one that are meant. CHANGELOG.md
// has each. After a release the list begins anew.
var listed = []*regexp.Regexp{
	regexp.MustCompile(`^ServiceImport web status endpointSliceObjects: "Absent" is new$`),
}

// isListed reports whether a line about a difference is meant.
func isListed(line string) bool {
	return slices.ContainsFunc(listed, func(meant *regexp.Regexp) bool { return meant.MatchString(line) })
}
