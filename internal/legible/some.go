package legible

import (
	"fmt"
	"strings"
)

// First returns the first texts of a list, most at most, and then how many more there are.
func First(texts []string, most int) []string {
	if more := len(texts) - most; more > 0 {
		return append(texts[:most:most], fmt.Sprintf("and %d more", more))
	}
	return texts
}

// Some joins the first texts of a list, most at most, and counts the rest.
func Some(texts []string, most int) string {
	if len(texts) <= most {
		return strings.Join(texts, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(texts[:most-1], ", "), len(texts)-most+1)
}
