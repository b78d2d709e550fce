package scenario

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// parseMetric is for: metric REGEX VALUE, VALUE being a number or >NUMBER.
func parseMetric(_ *parser, args []string) (action, error) {
	series, err := regexp.Compile(args[0])
	if err != nil {
		return nil, err
	}
	text, more := strings.CutPrefix(args[1], ">")
	want, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("%q is neither a number nor >NUMBER", args[1])
	}
	return func(ctx context.Context, r *run) error {
		if r.runner.env.Gateway == nil {
			return errors.New("there is no gateway to ask for metrics")
		}
		url := "http://" + r.runner.env.Gateway.MetricsAddr() + "/metrics"
		return eventually(ctx, wait{limit: r.runner.opt.Timeout, poll: 100 * time.Millisecond}, func() (int64, error) {
			samples, err := scrape(ctx, url)
			if err != nil {
				return 0, err
			}
			sum, found := 0.0, 0
			for _, s := range samples {
				if series.MatchString(s.series) {
					sum += s.value
					found++
				}
			}
			if more && sum > want || !more && sum == want {
				return 0, nil
			}
			return 0, fmt.Errorf("%d samples match and add up to %v, expected is %s", found, sum, args[1])
		})
	}, nil
}

// sample is one line of /metrics.
type sample struct {
	series string // name{labels}
	value  float64
}

func scrape(ctx context.Context, url string) ([]sample, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/plain")
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s says %s", url, resp.Status)
	}
	return readSamples(resp.Body)
}

// readSamples reads the text format of Prometheus.
func readSamples(r io.Reader) ([]sample, error) {
	var samples []sample
	lines := bufio.NewScanner(r)
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
		samples = append(samples, sample{series: strings.TrimSpace(line[:end]), value: value})
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
