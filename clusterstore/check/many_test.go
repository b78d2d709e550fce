package check

import (
	"fmt"
	"testing"

	"k8s.io/client-go/rest"

	"isthmus/clusterstore"
	"isthmus/federation"
)

// TestManyClusters: each of many links has its results. All are asked at once, and each has 3 s to answer: so many are quick enough
// on a busy machine too.
func TestManyClusters(t *testing.T) {
	w := newWorld(t)
	local, east := w.local.start(t), w.east.start(t)
	secret := linkSecret(t, "link", "east", east, w)
	one := clusterstore.ReadAccesses(append(w.secrets, secret))[0]
	var links []clusterstore.Access
	const clusters = 12
	for i := range clusters {
		a := one
		a.Cluster, a.Secret = federation.ClusterName(fmt.Sprintf("c%03d", i)), fmt.Sprint("link-", i)
		links = append(links, a)
	}
	results := Run(t.Context(), Config{
		Namespace: "linkerd", Local: &rest.Config{Host: local.URL, TLSClientConfig: rest.TLSClientConfig{CAData: authority(local)}}, Links: links,
	})
	fine := make(map[string]int)
	for _, r := range results {
		if r.Level == OK {
			fine[r.Check]++
		}
	}
	for _, name := range []string{API, ClockSkew, Rights, LinkSecret, LinkExpiry, Anchors} {
		if fine[name] < clusters {
			t.Errorf("%s: %d clusters are fine", name, fine[name])
		}
	}
}
