package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// fields maps the path of each value in a JSON tree to the value.
type fields map[string]string

// add adds the values of a JSON tree. Empty objects and lists count as values, because Linkerd's
// protocol hints are empty objects.
func (f fields) add(path string, tree any) {
	switch t := tree.(type) {
	case map[string]any:
		if len(t) == 0 {
			f[path] = "{}"
		}
		for key, value := range t {
			f.add(path+" "+key, value)
		}
	case []any:
		if len(t) == 0 {
			f[path] = "[]"
		}
		for i, value := range t {
			f.add(fmt.Sprintf("%s[%d]", path, i), value)
		}
	default:
		text, err := json.Marshal(t)
		if err != nil {
			text = []byte(err.Error())
		}
		f[path] = string(text)
	}
}

func (f fields) differences(after fields) (lines []string) {
	paths := maps.Clone(f)
	maps.Copy(paths, after)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		before, had := f[path]
		now, has := after[path]
		switch {
		case !had:
			lines = append(lines, fmt.Sprintf("%s: %s is new", path, now))
		case !has:
			lines = append(lines, fmt.Sprintf("%s: %s is gone", path, before))
		case before != now:
			lines = append(lines, fmt.Sprintf("%s: %s instead of %s", path, now, before))
		}
	}
	return lines
}

// compareMeshed returns an error unless the fields contain protocol hints and identities, which
// only meshed endpoints have. Without them, the comparison would miss differences.
func (f fields) compareMeshed() error {
	for _, name := range []string{" protocolHint ", " tlsIdentity "} {
		named := func(path string) bool { return strings.Contains(path, name) }
		if !slices.ContainsFunc(slices.Collect(maps.Keys(f)), named) {
			return fmt.Errorf("no stream has a field%sto compare", name)
		}
	}
	return nil
}

// listed contains the intended differences between the previous version and this one. CHANGELOG.md
// describes each of them. The list is emptied after a release.
var listed = []*regexp.Regexp{
	regexp.MustCompile(`^ServiceImport web status endpointSliceObjects: "Absent" is new$`),

	// The replicas run with --enable-ipv6=false, so that written Services have no IPv6 addresses.
	regexp.MustCompile(`^Service web-[a-z]+ metadata annotations isthmus\.io/single-stack: "true" is new$`),
	regexp.MustCompile(`^Service web-[a-z]+ spec ipFamilyPolicy: "SingleStack" instead of "PreferDualStack"$`),
	regexp.MustCompile(`^Service(Import)? web[-a-z]* spec ipFamilies\[1\]: "IPv6" is gone$`),
	regexp.MustCompile(`^Service web-[a-z]+ spec clusterIPs\[1\]: "fd00:[0-9a-f:]+" is gone$`),
	regexp.MustCompile(`^ServiceImport web spec ips\[1\]: "fd00:[0-9a-f:]+" is gone$`),
}

func isListed(line string) bool {
	return slices.ContainsFunc(listed, func(meant *regexp.Regexp) bool { return meant.MatchString(line) })
}
