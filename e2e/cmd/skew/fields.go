package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// fields are the values of trees, as JSON, by the path to each.
type fields map[string]string

// add adds the values of a tree of JSON.
func (f fields) add(path string, tree any) {
	switch t := tree.(type) {
	case map[string]any:
		for key, value := range t {
			f.add(path+" "+key, value)
		}
	case []any:
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

// differences has a line for each field that differs.
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
