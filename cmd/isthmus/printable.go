package main

import "isthmus/internal/text"

// maxRepeated is how much of a text an answer has, in bytes: names of objects are shorter.
const maxRepeated = 400

func printable(s string) string { return text.Clean(s, maxRepeated) }

func printables(texts []string) []string { return text.CleanAll(texts, maxRepeated) }
