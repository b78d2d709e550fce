package scenario

import (
	"encoding/json"
	"fmt"
	"strings"
)

// jsonDiff shows two JSON values line by line: what only the first has after -, what only the second has after +, and a
// little of what is around.
func jsonDiff(want, got any) string {
	a, b := indented(want), indented(got)
	const most = 2000 // lines; the table below is of that size squared
	if len(a) > most || len(b) > most {
		return fmt.Sprintf("- %s\n+ %s", clip(jsonText(want)), clip(jsonText(got)))
	}
	return strings.Join(around(lineDiff(a, b), 3), "\n")
}

func indented(v any) []string {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return []string{err.Error()}
	}
	return strings.Split(string(text), "\n")
}

func clip(text string) string {
	const most = 4000
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

// lineDiff returns all lines of a and b, each after "  ", "- " or "+ ", by their longest common subsequence.
func lineDiff(a, b []string) []string {
	common := make([][]int32, len(a)+1) // of a[i:] and b[j:]
	for i := range common {
		common[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out []string
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, "  "+a[i])
			i++
			j++
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			out = append(out, "- "+a[i])
			i++
		default:
			out = append(out, "+ "+b[j])
			j++
		}
	}
	return out
}

// around leaves out the lines that are the same and further than n from those that are not.
func around(lines []string, n int) []string {
	keep := make([]bool, len(lines))
	for i, line := range lines {
		if !strings.HasPrefix(line, "  ") {
			for k := max(0, i-n); k <= min(len(lines)-1, i+n); k++ {
				keep[k] = true
			}
		}
	}
	var out []string
	for i, line := range lines {
		if keep[i] {
			out = append(out, line)
		} else if len(out) == 0 || out[len(out)-1] != "  …" {
			out = append(out, "  …")
		}
	}
	return out
}
