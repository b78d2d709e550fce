package cases

import (
	"strings"
	"testing"
)

func TestParseMistakes(t *testing.T) {
	for script, want := range map[string]string{
		"nonsense":                               "c.txtar:1: nonsense: unknown command",
		"\nsettle x":                             "c.txtar:2: settle: \"x\" is not a duration",
		"get a":                                  "want: get ID AUTHORITY [TOKEN]",
		"expect-addrs a":                         "stream \"a\" is not open yet",
		"get a x\nexpect a nowhere":              "no section \"nowhere\"",
		"within 1s settle 1s":                    "\"settle\" is not one of",
		"pod south p 10.0.0.1":                   "not one of the clusters",
		"pod west p 10.0.0.1 prot=1":             "unknown option",
		"svc west s 80 selector.":                "unknown option",
		"expect-svc west s prots=1":              "unknown option",
		"gateway west g - prots=1":               "unknown option",
		"slice west s web 80 10.0.0.1,color=red": "unknown word",
		"link east as east missing=hope":         "missing=hope: the value must be one of",
		"repeat 2 s\n-- s --\nnonsense":          "c.txtar:3: nonsense",
		"settle\n-- s --\n-- s --\n":             "duplicate section",
	} {
		if _, err := Parse("c.txtar", []byte(script)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v\nwant %q", script, err, want)
		}
	}
}
