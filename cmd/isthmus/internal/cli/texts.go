package cli

import (
	"fmt"
	"strings"
)

// Some joins the first texts of a list, most at most, and counts the rest.
func Some(texts []string, most int) string {
	if len(texts) <= most {
		return strings.Join(texts, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(texts[:most-1], ", "), len(texts)-most+1)
}

// Count is a number and what it counts.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
