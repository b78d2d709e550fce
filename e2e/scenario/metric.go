package scenario

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"isthmus/e2e/admin"
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
		return eventually(ctx, wait{limit: r.runner.opt.Timeout, poll: 100 * time.Millisecond}, func() (int64, error) {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			samples, err := admin.Metrics(ctx, r.runner.env.Gateway.MetricsAddr())
			if err != nil {
				return 0, err
			}
			sum, found := admin.Sum(samples, series)
			if more && sum > want || !more && sum == want {
				return 0, nil
			}
			return 0, fmt.Errorf("%d samples match and add up to %v, expected is %s", found, sum, args[1])
		})
	}, nil
}
