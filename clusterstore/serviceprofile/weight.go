package serviceprofile

import (
	"fmt"
	"math"
	"strings"

	quantity "k8s.io/apimachinery/pkg/api/resource"

	"isthmus/clusterstore/kube"
)

// weightUnits are what a weight of one is worth.
const weightUnits = 10_000

// weight reads a weight as proxies are told it; none is zero, and what is too
// much for them is their most.
func weight(text string) (uint32, error) {
	if text == "" {
		return 0, nil
	}
	q, err := readQuantity(text)
	switch {
	case err != nil:
		return 0, err
	case q.Sign() < 0:
		return 0, fmt.Errorf("%s is negative", text)
	case q.CmpInt64(math.MaxUint32/weightUnits) > 0:
		return math.MaxUint32, nil
	}
	return uint32(q.MilliValue() * (weightUnits / 1000)), nil
}

// readQuantity refuses what would take long to work out, such as 1e999999999.
func readQuantity(text string) (quantity.Quantity, error) {
	number, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	if len(number) > 40 || len(exponent) > 3 {
		return quantity.Quantity{}, fmt.Errorf("%q is too long", kube.Clip(text))
	}
	q, err := quantity.ParseQuantity(text)
	if err != nil {
		return q, fmt.Errorf("%q is no quantity", kube.Clip(text))
	}
	return q, nil
}
