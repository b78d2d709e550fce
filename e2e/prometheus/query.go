package prometheus

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"

	"isthmus/e2e/admin"
)

// Sample is one series' value now.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// Query evaluates an expression whose result is a vector.
func (s *Server) Query(ctx context.Context, expression string) ([]Sample, error) {
	var answer struct {
		Data struct {
			ResultType string          `json:"resultType"`
			Result     json.RawMessage `json:"result"`
		} `json:"data"`
	}
	if err := s.get(ctx, "/api/v1/query?query="+url.QueryEscape(expression), &answer); err != nil {
		return nil, fmt.Errorf("%s: %w", expression, err)
	}
	if answer.Data.ResultType != "vector" {
		return nil, fmt.Errorf("%s: the result is a %s", expression, answer.Data.ResultType)
	}
	var result []struct {
		Metric map[string]string `json:"metric"`
		Value  [2]any            `json:"value"` // time and value
	}
	if err := json.Unmarshal(answer.Data.Result, &result); err != nil {
		return nil, err
	}
	samples := make([]Sample, 0, len(result))
	for _, r := range result {
		text, _ := r.Value[1].(string)
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", expression, err)
		}
		samples = append(samples, Sample{r.Metric, value})
	}
	return samples, nil
}

// get asks for a path; into gets the JSON answer.
func (s *Server) get(ctx context.Context, path string, into any) error {
	text, err := admin.Get(ctx, s.port.Addr(), path)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), into)
}
