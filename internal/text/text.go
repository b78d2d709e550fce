// Package text makes strings that clusters, clients and users have written safe for logs, pages and terminals, and
// formats counts and short lists for people.
package text

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits for Clean and Truncate, in bytes.
const (
	Long  = 500 // for a string that is shown or logged by itself
	Short = 80  // for a string that an error quotes
)

const ellipsis = "…"

// Clean returns s without characters that could control a terminal, and with at most limit bytes. White space of any
// kind becomes a space; every other character that is not printable becomes U+FFFD. If s is longer than limit, Clean
// cuts it and appends an ellipsis. If nothing has to be replaced, the result shares memory with s.
func Clean(s string, limit int) string {
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
			for len(kept) > 0 && len(kept)+len(ellipsis) > limit {
				_, size := utf8.DecodeLastRuneInString(kept)
				kept = kept[:len(kept)-size]
			}
			return kept + ellipsis
		}
		b.WriteRune(r)
	}
	return b.String()
}

// CleanAll applies Clean to each string of a list, and returns a new list.
func CleanAll(list []string, limit int) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = Clean(s, limit)
	}
	return out
}

// Truncate returns the first limit bytes of s followed by an ellipsis, or s if it is not longer. It replaces no
// characters, except an incomplete UTF-8 sequence at the cut.
func Truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + ellipsis
}

// Quoted returns s in Go syntax with quotes if s is empty or has characters that are not printable. Otherwise it
// returns s. Quoted never shortens s.
func Quoted(s string) string {
	if s == "" || !utf8.ValidString(s) || strings.ContainsFunc(s, Unprintable) {
		return strconv.Quote(s)
	}
	return s
}

// Unprintable reports whether r could control a terminal.
func Unprintable(r rune) bool { return !unicode.IsPrint(r) }

// plain reports whether s consists of printable ASCII only.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Count returns a number with the noun that it counts: "1 service", "0 services".
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// First returns the first most strings of a list. If there are more, one more string says how many: "and 3 more".
func First(list []string, most int) []string {
	if more := len(list) - most; more > 0 {
		return append(list[:most:most], fmt.Sprintf("and %d more", more))
	}
	return list
}

// Some joins a list with commas. If the list has more than most strings, the last one says how many it leaves out:
// "a, b and 3 more".
func Some(list []string, most int) string {
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most-1], ", "), len(list)-most+1)
}
