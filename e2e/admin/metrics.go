package admin

import (
	"bufio"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Sample is one line of a page of metrics.
type Sample struct {
	Series string // name{labels}
	Value  float64
}

// Metrics reads /metrics.
func Metrics(ctx context.Context, addr string) ([]Sample, error) {
	text, err := Get(ctx, addr, "/metrics")
	if err != nil {
		return nil, err
	}
	return Samples(text)
}

// Sum adds up the samples whose series match, and returns how many there are.
func Sum(samples []Sample, series *regexp.Regexp) (sum float64, count int) {
	for _, s := range samples {
		if series.MatchString(s.Series) {
			sum += s.Value
			count++
		}
	}
	return sum, count
}

// Samples reads the text format of Prometheus.
func Samples(text string) ([]Sample, error) {
	var samples []Sample
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		end := seriesEnd(line)
		values := strings.Fields(line[end:])
		if len(values) == 0 {
			return nil, fmt.Errorf("no value in the metrics line %q", line)
		}
		value, err := strconv.ParseFloat(values[0], 64)
		if err != nil {
			return nil, fmt.Errorf("metrics line %q: %w", line, err)
		}
		samples = append(samples, Sample{Series: strings.TrimSpace(line[:end]), Value: value})
	}
	return samples, lines.Err()
}

// seriesEnd returns where name{labels} ends; a brace or blank within a quoted label value does not end it.
func seriesEnd(line string) int {
	labels, quoted := false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			labels = true
		case c == '}':
			return i + 1
		case !labels && (c == ' ' || c == '\t'):
			return i
		}
	}
	return len(line)
}
