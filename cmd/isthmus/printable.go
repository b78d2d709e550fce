package main

import (
	"strings"
	"unicode"
)

// printable replaces what a terminal may take for a command, and cuts what is long: texts of
// clusters and clients may have anything.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, beginning(text))
}

// printables returns texts of which each is printable.
func printables(texts []string) []string {
	list := make([]string, len(texts))
	for i, text := range texts {
		list[i] = printable(text)
	}
	return list
}

// maxRepeated is how much of a text an answer has, in bytes: names of objects are shorter.
const maxRepeated = 400

// beginning returns a text, or its beginning if it is long.
func beginning(text string) string {
	if len(text) > maxRepeated {
		return strings.ToValidUTF8(text[:maxRepeated], "") + "…"
	}
	return text
}
