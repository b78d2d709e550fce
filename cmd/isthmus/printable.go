package main

import "isthmus/internal/legible"

// maxRepeated is how much of a text an answer has, in bytes: names of objects are shorter.
const maxRepeated = 400

func printable(text string) string { return legible.Text(text, maxRepeated) }

func printables(texts []string) []string { return legible.Texts(texts, maxRepeated) }
