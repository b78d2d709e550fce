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

func TestFirst(t *testing.T) {
	for texts, want := range map[string]string{"": "", "a b": "a; b", "a b c d": "a; b; and 2 more"} {
		list := strings.Fields(texts)
		if got := strings.Join(First(list, 2), "; "); got != want || strings.Join(list, " ") != texts {
			t.Errorf("%s: %q, want %q; the list is %q", texts, got, want, list)
		}
	}
}
