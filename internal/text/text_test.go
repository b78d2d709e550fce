package text

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{
		{"", 10, ""},
		{"east", 4, "east"},
		{"east", 3, "…"},
		{"eastern", 6, "eas…"},
		{"über", 5, "über"},
		{"überall", 6, "üb…"},
		{"a\nb\tc\u00a0d", 20, "a b c d"},
		{"\x1b[2J\u202e", 20, "\uFFFD[2J\uFFFD"},
		{"\xff\xfe", 20, "\uFFFD\uFFFD"},
	} {
		if got := Clean(c.text, c.limit); got != c.want {
			t.Errorf("%q, %d: %q, want %q", c.text, c.limit, got, c.want)
		}
	}
}

func TestTruncate(t *testing.T) {
	for text, want := range map[string]string{
		"":       "",
		"abc":    "abc",
		"abcd":   "abc…",
		"abä":    "ab…",
		"ab\x1b": "ab\x1b",
	} {
		if got := Truncate(text, 3); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestQuoted(t *testing.T) {
	for text, want := range map[string]string{
		"":          `""`,
		"east":      "east",
		"two words": "two words",
		"a\nb":      `"a\nb"`,
		"\x1b[2J":   `"\x1b[2J"`,
		"\x9b2J":    `"\x9b2J"`,
	} {
		if got := Quoted(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// FuzzClean checks that no result is too long or contains characters that control a terminal.
func FuzzClean(f *testing.F) {
	f.Add("east\x1b[2J", 5)
	f.Add(strings.Repeat("ä", 1000), 500)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = 3 + limit&0xfff
		for _, s := range []string{Clean(text, limit), Quoted(text)} {
			if !utf8.ValidString(s) || strings.ContainsFunc(s, Unprintable) {
				t.Errorf("%q", s)
			}
		}
		if n := len(Clean(text, limit)); n > limit {
			t.Errorf("%d bytes, want %d", n, limit)
		}
	})
}

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
