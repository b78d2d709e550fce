package cases

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"isthmus/e2e/harness"
)

// parseMetric parses: metric REGEX VALUE, where VALUE is a number, >NUMBER, note or noted.
func parseMetric(_ *parser, args []string) (action, error) {
	series, err := regexp.Compile(args[0])
	if err != nil {
		return nil, err
	}
	holds, err := parseMetricValue(args[1])
	if err != nil {
		return nil, err
	}
	return fromAdmin(func(ctx context.Context, r *run) error {
		samples, err := harness.ReadMetrics(ctx, r.runner.env.Gateway.MetricsAddr())
		if err != nil {
			return err
		}
		sum, found := harness.SumSamples(samples, series)
		if args[1] == "note" {
			r.noted[args[0]] = sum
		}
		if holds(sum, r.noted[args[0]]) {
			return nil
		}
		return fmt.Errorf("%d samples match and add up to %v, want %s%s", found, sum, args[1], notes(r, args))
	}), nil
}

// parseMetricValue returns a function that compares a sum with the expected value or with the noted
// sum.
func parseMetricValue(text string) (holds func(sum, noted float64) bool, err error) {
	switch text {
	case "note":
		return func(float64, float64) bool { return true }, nil
	case "noted":
		return func(sum, noted float64) bool { return sum == noted }, nil
	}
	text, more := strings.CutPrefix(text, ">")
	want, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("%q is not a number, >NUMBER, note or noted", text)
	}
	return func(sum, _ float64) bool { return more && sum > want || !more && sum == want }, nil
}

// notes describes the noted value for the error of a failed comparison.
func notes(r *run, args []string) string {
	if args[1] != "noted" {
		return ""
	}
	return fmt.Sprintf(" before, %v", r.noted[args[0]])
}

// parsePage parses: page PATH REGEX.
func parsePage(_ *parser, args []string) (action, error) {
	want, err := regexp.Compile(args[1])
	if err != nil {
		return nil, err
	}
	return fromAdmin(func(ctx context.Context, r *run) error {
		page, err := harness.GetPage(ctx, r.runner.env.Gateway.MetricsAddr(), args[0])
		if err == nil && !want.MatchString(page) {
			err = fmt.Errorf("%s does not match %q: %s", args[0], args[1], page)
		}
		return err
	}), nil
}

// fromAdmin waits until a check of the replica's admin server succeeds.
func fromAdmin(check func(context.Context, *run) error) action {
	return func(ctx context.Context, r *run) error {
		return eventually(ctx, wait{limit: r.runner.opt.Timeout, poll: 100 * time.Millisecond}, func() (int64, error) {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			return 0, check(ctx, r)
		})
	}
}
