package legible

import (
	"strings"
	"testing"
)

func TestSome(t *testing.T) {
	for texts, want := range map[string]string{"": "", "a": "a", "a b c": "a, b, c", "a b c d": "a, b and 2 more"} {
		if got := Some(strings.Fields(texts), 3); got != want {
			t.Errorf("%s: %q, want %q", texts, got, want)
		}
	}
}
