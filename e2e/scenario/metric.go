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
	return fromAdmin(func(ctx context.Context, addr string) error {
		samples, err := admin.Metrics(ctx, addr)
		if err != nil {
			return err
		}
		sum, found := admin.Sum(samples, series)
		if more && sum > want || !more && sum == want {
			return nil
		}
		return fmt.Errorf("%d samples match and add up to %v, expected is %s", found, sum, args[1])
	}), nil
}

// parsePage is for: page PATH REGEX.
func parsePage(_ *parser, args []string) (action, error) {
	want, err := regexp.Compile(args[1])
	if err != nil {
		return nil, err
	}
	return fromAdmin(func(ctx context.Context, addr string) error {
		page, err := admin.Get(ctx, addr, args[0])
		if err == nil && !want.MatchString(page) {
			err = fmt.Errorf("%s does not match %q: %s", args[0], args[1], page)
		}
		return err
	}), nil
}

// fromAdmin waits until what the gateway's admin server shows is right.
func fromAdmin(check func(ctx context.Context, addr string) error) action {
	return func(ctx context.Context, r *run) error {
		if r.runner.env.Gateway == nil {
			return errors.New("there is no gateway to ask for metrics and pages")
		}
		return eventually(ctx, wait{limit: r.runner.opt.Timeout, poll: 100 * time.Millisecond}, func() (int64, error) {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			return 0, check(ctx, r.runner.env.Gateway.MetricsAddr())
		})
	}
}
