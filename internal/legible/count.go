package legible

import "fmt"

// Count is a number and what it counts: "1 service", "0 services".
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
