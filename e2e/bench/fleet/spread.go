package fleet

import (
	corev1 "k8s.io/api/core/v1"

	"isthmus/internal/apisim"
)

// first returns the number of a cluster's first Service.
func (c Config) first(cluster int) int {
	if c.Spread == 0 || cluster == 0 {
		return 0
	}
	return (cluster - 1) / c.Spread * c.Services
}

// Name returns the name of a cluster, by number: 0 is the local one.
func Name(cluster int) string { return name(cluster) }

// Server returns the API server of a cluster, by number.
func (f *Fleet) Server(cluster int) *apisim.Server { return f.clusters[cluster].api }

// Pod returns a Pod of any cluster, by number, as it is at first.
func Pod(i int) *corev1.Pod { return newPod(i) }
