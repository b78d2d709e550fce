package legible

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits for Text and Beginning, in bytes.
const (
	Long  = 500 // for what is shown or logged by itself
	Short = 80  // for what an error quotes
)

const rest = "…"

// Text returns a text of at most limit bytes: of a longer one the end is left out, in whose place is an ellipsis. Blanks of all
// kinds, line breaks too, become spaces, and what else is not printable the replacement character U+FFFD. A text with nothing to
// replace shares its memory with s.
func Text(s string, limit int) string {
	if len(s) <= limit && plain(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case unicode.IsSpace(r):
			r = ' '
		case !unicode.IsPrint(r):
			r = unicode.ReplacementChar
		}
		if b.Len()+utf8.RuneLen(r) > limit {
			kept := b.String()
			for len(kept) > 0 && len(kept)+len(rest) > limit {
				_, size := utf8.DecodeLastRuneInString(kept)
				kept = kept[:len(kept)-size]
			}
			return kept + rest
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Texts returns texts of which each is as [Text] has it.
func Texts(list []string, limit int) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = Text(s, limit)
	}
	return out
}

// Beginning returns a text, or the beginning of one that has more than limit bytes and an ellipsis. It replaces nothing
// but what is not UTF-8 where it cuts.
func Beginning(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + rest
}

// Quoted returns a text as it is or, if it is empty or not all of it is printable, in quotes and escaped as Go does. Nothing
// is left out.
func Quoted(s string) string {
	if s == "" || !utf8.ValidString(s) || strings.ContainsFunc(s, Unprintable) {
		return strconv.Quote(s)
	}
	return s
}

// Unprintable reports whether a terminal may obey a character.
func Unprintable(r rune) bool { return !unicode.IsPrint(r) }

// plain reports whether a text has nothing but printable ASCII, as most have.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
