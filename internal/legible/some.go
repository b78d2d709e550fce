package legible

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
