package harness

import (
	"path"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/discovery"
)

// TestStartWithoutDir checks that a cluster never stores its state in the working directory.
func TestStartWithoutDir(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := StartCluster(t.Context(), ClusterConfig{Name: "west", Binary: "/bin/false"}); err == nil ||
		!strings.Contains(err.Error(), "no Dir") {
		t.Error(err)
	}
}

// TestStartWatchable checks that a ready cluster accepts watches of all resources at the first
// attempt. A client whose first watch is rejected misses changes for more than a second.
func TestStartWatchable(t *testing.T) {
	c, err := StartCluster(t.Context(), ClusterConfig{Name: "west", Dir: filepath.Join(t.TempDir(), "west")})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	client, err := discovery.NewDiscoveryClientForConfig(c.REST())
	if err != nil {
		t.Fatal(err)
	}
	for _, resource := range []string{
		"api/v1/services",
		"apis/discovery.k8s.io/v1/endpointslices",
		"apis/linkerd.io/v1alpha2/serviceprofiles",
		"apis/policy.linkerd.io/v1beta3/servers",
		"apis/workload.linkerd.io/v1beta1/externalworkloads",
		"apis/multicluster.linkerd.io/v1alpha3/links",
	} {
		t.Run(path.Base(resource), func(t *testing.T) {
			events, err := client.RESTClient().Get().
				AbsPath(resource).
				Param("watch", "true").
				Param("resourceVersion", "0").
				MaxRetries(0).
				Stream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := events.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
