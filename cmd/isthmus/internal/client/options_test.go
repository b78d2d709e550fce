package client

import (
	"strings"
	"testing"
)

// TestFlags: they stand anywhere, with one dash or two, and after "--" there are none.
func TestFlags(t *testing.T) {
	for args, want := range map[string]string{
		"get --once web:80 -o json --addr=a:1 -- -x": `isthmus get: unexpected argument "-x": give one AUTHORITY`,
		"get -- -once web:80":                        `isthmus get: unexpected argument "web:80": give one AUTHORITY`,
		"get web:80 -once -addr a:1 -o x":            `isthmus get: --output is "x": give table or json (`,
		"get web:80 -addr=a:1 -ox":                   `isthmus get: --output is "x": give table or json (`,
		"get web:80 -ojson -x":                       "isthmus get: unknown shorthand flag: 'x' in -x (isthmus get --help explains)",
		"get web:80 --timeout 0":                     "isthmus get: --timeout is 0s: give a duration above 0, such as 10s (",
		"get --no":                                   "isthmus get: unknown flag: --no (",
	} {
		code, out, err := call(strings.Fields(args)...)
		if code != 2 || out != "" || !strings.HasPrefix(err, want) {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q, want %q", args, code, out, err, want)
		}
	}
}
