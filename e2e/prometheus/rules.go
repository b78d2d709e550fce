package prometheus

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Rule is an alerting rule as the server has it.
type Rule struct {
	Name       string `json:"name"`
	Expression string `json:"query"`
	Health     string `json:"health"` // ok, once it has been evaluated
	State      string `json:"state"`  // inactive, pending or firing
}

// Rules returns all rules.
func (s *Server) Rules(ctx context.Context) ([]Rule, error) {
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []Rule `json:"rules"`
			} `json:"groups"`
		} `json:"data"`
	}
	if err := s.get(ctx, "/api/v1/rules", &answer); err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	var rules []Rule
	for _, g := range answer.Data.Groups {
		rules = append(rules, g.Rules...)
	}
	return rules, nil
}

// Selectors returns what an expression selects, each as an expression of its own.
func (s *Server) Selectors(ctx context.Context, expression string) ([]string, error) {
	var answer struct {
		Data json.RawMessage `json:"data"`
	}
	if err := s.get(ctx, "/api/v1/parse_query?query="+url.QueryEscape(expression), &answer); err != nil {
		return nil, fmt.Errorf("%s: %w", expression, err)
	}
	var tree any
	if err := json.Unmarshal(answer.Data, &tree); err != nil {
		return nil, err
	}
	var selectors []string
	walk(tree, func(node map[string]any) {
		if kind := node["type"]; kind != "vectorSelector" && kind != "matrixSelector" {
			return
		}
		var matchers []string
		list, _ := node["matchers"].([]any)
		for _, m := range list {
			m, _ := m.(map[string]any)
			value, _ := m["value"].(string)
			matchers = append(matchers, fmt.Sprint(m["name"], m["type"], strconv.Quote(value)))
		}
		selectors = append(selectors, "{"+strings.Join(matchers, ",")+"}")
	})
	return selectors, nil
}

// walk calls f for every object in a tree of JSON.
func walk(tree any, f func(map[string]any)) {
	switch tree := tree.(type) {
	case map[string]any:
		f(tree)
		for _, child := range tree {
			walk(child, f)
		}
	case []any:
		for _, child := range tree {
			walk(child, f)
		}
	}
}
