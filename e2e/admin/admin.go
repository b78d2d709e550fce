// Package admin reads the pages of a gateway's admin server: its metrics and what it shows people. Each call connects anew,
// so that it leaves no connection behind.
package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// limit bounds a call, besides its context.
const limit = time.Minute

// Get returns a page of the admin server at HOST:PORT. A status other than 200 is an error that includes the page.
func Get(ctx context.Context, addr, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s returns %s: %s", path, resp.Status, text)
	}
	return string(text), err
}

// Clusters is /debug/clusters, as far as it is used here.
type Clusters struct {
	Local    Cluster
	Clusters []Cluster // one for each link Secret
	Writer   Writer    `json:"endpointSliceWriter"`
}

// Cluster is a cluster's, or link Secret's, part of the page.
type Cluster struct {
	Cluster, Secret, State, Reason string
	Warnings                       []string
	Resources                      []Resource
	Memory                         struct{ Used, Limit int64 }       // of a linked one, by estimate
	Gateways                       []struct{ Address, State string } // of a cluster on another network
}

// Resource is the part of a cluster about one kind of object.
type Resource struct {
	Resource     string
	Synced       bool
	Objects      int
	Err, Trouble string
}

// Writer is the part about the writer of EndpointSlices for ExternalWorkloads.
type Writer struct {
	Leading, Synced   bool
	Holder            string
	LeaseError, Error string
	Slices            int
	Unread            map[string]string
}

// ReadClusters reads /debug/clusters.
func ReadClusters(ctx context.Context, addr string) (page Clusters, err error) {
	text, err := Get(ctx, addr, "/debug/clusters")
	if err == nil {
		err = json.Unmarshal([]byte(text), &page)
	}
	return page, err
}

// Named returns the parts of a linked cluster, one for each link Secret that names it; of the local one if it is called so.
func (p Clusters) Named(cluster string) (all []Cluster) {
	for _, c := range append(slices.Clip(p.Clusters), p.Local) {
		if c.Cluster == cluster {
			all = append(all, c)
		}
	}
	return all
}
