package fleet

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Labels of the ConfigMaps that contain the copy of a stale cluster.
const (
	copyCluster    = "isthmus.io/cache-cluster"
	copyGeneration = "isthmus.io/cache-generation"
	copyHead       = "isthmus.io/cache"
)

// Copied describes the complete copies of stale clusters in the local cluster.
type Copied struct {
	Clusters int       // number of clusters with a complete copy
	Bytes    int       // total size of these copies
	Last     time.Time // time of the last write to a ConfigMap
}

type copies struct {
	all  map[[2]string]*written
	last time.Time
}

type written struct {
	count int // expected number of ConfigMaps
	parts int // number of existing ConfigMaps
	bytes int // total size of the existing ConfigMaps
}

func (c *copies) add(m *corev1.ConfigMap) {
	var head struct {
		Parts int `json:"parts"` // number of ConfigMaps
	}
	if json.Unmarshal([]byte(m.Annotations[copyHead]), &head) != nil {
		return // the ConfigMap is not part of a copy
	}
	id := [2]string{m.Labels[copyCluster], m.Labels[copyGeneration]}
	one := c.all[id]
	if one == nil {
		if c.all == nil {
			c.all = make(map[[2]string]*written)
		}
		one = &written{count: head.Parts}
		c.all[id] = one
	}
	one.parts++
	for _, data := range m.BinaryData {
		one.bytes += len(data)
	}
	c.last = time.Now()
}

func (c *copies) complete() Copied {
	clusters := make(map[string]bool)
	done := Copied{Last: c.last}
	for id, one := range c.all {
		if one.parts < one.count {
			continue
		}
		clusters[id[0]] = true
		done.Bytes += one.bytes
	}
	done.Clusters = len(clusters)
	return done
}
