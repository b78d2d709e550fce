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

	"isthmus/internal/adminapi"
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

// Read reads a page of JSON.
func Read[Page any](ctx context.Context, addr, path string) (page Page, err error) {
	text, err := Get(ctx, addr, path)
	if err == nil {
		err = json.Unmarshal([]byte(text), &page)
	}
	return page, err
}

// ReadClusters reads /debug/clusters.
func ReadClusters(ctx context.Context, addr string) (adminapi.Clusters, error) {
	return Read[adminapi.Clusters](ctx, addr, "/debug/clusters")
}

// Named returns the parts of the page about a linked cluster, one for each link Secret that names it, or about the local one if
// that is its name.
func Named(page adminapi.Clusters, cluster string) (all []adminapi.Cluster) {
	for _, c := range append(slices.Clip(page.Clusters), page.Local) {
		if c.Cluster == cluster {
			all = append(all, c)
		}
	}
	return all
}
