package cluster

import (
	"fmt"
	"math"
	"strings"

	quantity "k8s.io/apimachinery/pkg/api/resource"

	"isthmus/internal/text"
)

// weightUnits is the weight that proxies get for a weight of one.
const weightUnits = 10_000

// weight translates a weight, given as a Kubernetes quantity. A missing one is zero,
// one that is too large for proxies the largest that they take.
func weight(value string) (uint32, error) {
	if value == "" {
		return 0, nil
	}
	q, err := readQuantity(value)
	switch {
	case err != nil:
		return 0, err
	case q.Sign() < 0:
		return 0, fmt.Errorf("%s is negative", value)
	case q.CmpInt64(math.MaxUint32/weightUnits) > 0:
		return math.MaxUint32, nil
	}
	return uint32(q.MilliValue() * (weightUnits / 1000)), nil
}

// readQuantity refuses quantities that take long to compute, such as 1e999999999.
func readQuantity(value string) (quantity.Quantity, error) {
	number, exponent, _ := strings.Cut(strings.ToLower(value), "e")
	if len(number) > 40 || len(exponent) > 3 {
		return quantity.Quantity{}, fmt.Errorf("%q is too long", text.Truncate(value, text.Short))
	}
	q, err := quantity.ParseQuantity(value)
	if err != nil {
		return q, fmt.Errorf("%q is not a quantity", text.Truncate(value, text.Short))
	}
	return q, nil
}
