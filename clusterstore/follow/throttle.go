package follow

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
)

// How long a server may make a resource wait by Retry-After. It is less for failures than for a server that only limits
// requests: a load balancer may ask for minutes, and a cluster that is back must be watched within 10 s.
const (
	maxThrottle   = 60 * time.Second // for 429
	maxRetryAfter = 10 * time.Second // for other failures
)

// throttleJitter is the fraction by which a wait may be longer than requested. It keeps resources
// and replicas from returning at the same time.
const throttleJitter = 0.25

// throttle makes the next request of the resource wait for as long as an error asks for, within the maximum.
func (r *Resource) throttle(err error) {
	seconds, ok := apierrors.SuggestsClientDelay(err)
	if !ok || seconds <= 0 {
		return
	}
	longest := maxRetryAfter
	if apierrors.IsTooManyRequests(err) {
		longest = maxThrottle
	}
	shortest := min(time.Duration(seconds)*time.Second, time.Duration(float64(longest)/(1+throttleJitter)))
	r.throttled = time.Now().Add(wait.Jitter(shortest, throttleJitter))
	r.group.setThrottled(&r.state, r.throttled)
}
