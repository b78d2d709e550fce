package main

import (
	"regexp"
	"slices"
)

// listed are the differences between the previous version and this one that are meant. CHANGELOG.md
// has each. After a release the list begins anew.
var listed = []*regexp.Regexp{
	regexp.MustCompile(`^ServiceImport web status endpointSliceObjects: "Absent" is new$`),

	// The replicas run with --enable-ipv6=false: written Services have no IPv6 addresses.
	regexp.MustCompile(`^Service web-[a-z]+ metadata annotations isthmus\.io/single-stack: "true" is new$`),
	regexp.MustCompile(`^Service web-[a-z]+ spec ipFamilyPolicy: "SingleStack" instead of "PreferDualStack"$`),
	regexp.MustCompile(`^Service(Import)? web[-a-z]* spec ipFamilies\[1\]: "IPv6" is gone$`),
	regexp.MustCompile(`^Service web-[a-z]+ spec clusterIPs\[1\]: "fd00:[0-9a-f:]+" is gone$`),
	regexp.MustCompile(`^ServiceImport web spec ips\[1\]: "fd00:[0-9a-f:]+" is gone$`),
}

// isListed reports whether a line about a difference is meant.
func isListed(line string) bool {
	return slices.ContainsFunc(listed, func(meant *regexp.Regexp) bool { return meant.MatchString(line) })
}
