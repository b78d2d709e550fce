// Package text sanitizes strings that come from clusters, clients and users, so that the strings
// are safe in logs, pages and terminals. The package also formats counts and short lists for
// display.
package text

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Long and Short are maximum lengths for [Clean] and [Truncate], in bytes.
const (
	Long  = 500 // for a string that is shown or logged on its own
	Short = 80  // for a string that is quoted in an error
)

const ellipsis = "…"

// Clean replaces characters that could control a terminal, and truncates the string to the given
// number of bytes. Each white-space character is replaced with a space, and every other unprintable
// character with U+FFFD. A truncated string ends with an ellipsis. If s is already safe and short
// enough, Clean returns s itself.
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

// CleanAll returns a new list.
func CleanAll(list []string, limit int) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = Clean(s, limit)
	}
	return out
}

// Truncate shortens a string to at most the given number of bytes, removes invalid UTF-8, and
// appends an ellipsis. The ellipsis does not count toward the limit. If a string does not exceed
// the limit, Truncate returns the string unchanged, even if it contains invalid UTF-8.
func Truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + ellipsis
}

// Quoted quotes a string in Go syntax if the string is empty or contains unprintable characters.
// Quoted does not change other strings. Quoted never shortens the string.
func Quoted(s string) string {
	if s == "" || !utf8.ValidString(s) || strings.ContainsFunc(s, Unprintable) {
		return strconv.Quote(s)
	}
	return s
}

func Unprintable(r rune) bool { return !unicode.IsPrint(r) }

func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Count returns a number and its noun, such as "1 service" or "0 services".
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// First returns the given number of strings from the beginning of a list. If the list is longer,
// First appends a string such as "and 3 more".
func First(list []string, most int) []string {
	if more := len(list) - most; more > 0 {
		return append(list[:most:most], fmt.Sprintf("and %d more", more))
	}
	return list
}

// Some returns the strings of a list, joined with commas. If the list is longer than the given
// maximum, the result ends with the number of omitted strings, as in "a, b and 3 more".
func Some(list []string, most int) string {
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most-1], ", "), len(list)-most+1)
}
