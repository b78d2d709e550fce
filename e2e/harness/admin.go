package harness

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"isthmus/internal/adminapi"
)

// Each request uses a new connection, so that no idle connection remains.
const pageLimit = time.Minute

// GetPage returns a page of the admin server at HOST:PORT. If the status is not 200, the error
// includes the page.
func GetPage(ctx context.Context, addr, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, pageLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s returns %s: %s", path, resp.Status, text)
	}
	return string(text), err
}

// ReadPage reads a JSON page of the admin server.
func ReadPage[Page any](ctx context.Context, addr, path string) (page Page, err error) {
	text, err := GetPage(ctx, addr, path)
	if err == nil {
		err = json.Unmarshal([]byte(text), &page)
	}
	return page, err
}

func ReadClusters(ctx context.Context, addr string) (adminapi.Clusters, error) {
	return ReadPage[adminapi.Clusters](ctx, addr, "/debug/clusters")
}

// ClustersNamed returns all entries of the page for a cluster. A linked cluster has one entry per
// link Secret.
func ClustersNamed(page adminapi.Clusters, cluster string) (all []adminapi.Cluster) {
	for _, c := range append(slices.Clip(page.Clusters), page.Local) {
		if c.Cluster == cluster {
			all = append(all, c)
		}
	}
	return all
}

var heapAlloc = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)

// HeapInUse runs the replica's garbage collector and returns the bytes in use on the heap. The
// replica must run with -enable-pprof.
func HeapInUse(ctx context.Context, addr string) (int64, error) {
	var body string
	for range 3 { // a sync.Pool frees unused objects after two collections
		var err error
		if body, err = GetPage(ctx, addr, "/debug/pprof/heap?gc=1&debug=1"); err != nil {
			return 0, err
		}
	}
	found := heapAlloc.FindStringSubmatch(body)
	if found == nil {
		return 0, errors.New("the heap profile has no line HeapAlloc")
	}
	return strconv.ParseInt(found[1], 10, 64)
}

// Sample is one line of a metrics page.
type Sample struct {
	Series string // name{labels}
	Value  float64
}

func ReadMetrics(ctx context.Context, addr string) ([]Sample, error) {
	text, err := GetPage(ctx, addr, "/metrics")
	if err != nil {
		return nil, err
	}
	return ParseMetrics(text)
}

// SumSamples returns the sum and the number of the samples whose series match.
func SumSamples(samples []Sample, series *regexp.Regexp) (sum float64, count int) {
	for _, s := range samples {
		if series.MatchString(s.Series) {
			sum += s.Value
			count++
		}
	}
	return sum, count
}

// ParseMetrics parses the Prometheus text format.
func ParseMetrics(text string) ([]Sample, error) {
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

// seriesEnd returns the end of name{labels}. Braces and blanks inside of quoted label values are
// skipped.
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
