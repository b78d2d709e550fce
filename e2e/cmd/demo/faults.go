package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
	"isthmus/internal/adminapi"
)

// kill kills a cluster's API server and waits until Isthmus detects the outage.
func (d *demo) kill(ctx context.Context, name string) (note string, err error) {
	if err := d.servers[name].Kill(); err != nil {
		return "", err
	}
	gone := time.Now()
	if err := d.awaitLink(ctx, name, "stale"); err != nil {
		return "", err
	}
	text := fmt.Sprintf("after %s Isthmus reports the cluster as stale; its endpoints stay in use",
		short(time.Since(gone)))
	return text, nil
}

// restart restarts API servers and waits until Isthmus has synced with them. It returns the time of
// the last start.
func (d *demo) restart(ctx context.Context, clusters ...string) (started time.Time, err error) {
	for _, name := range clusters {
		started = time.Now()
		if err := d.servers[name].Restart(ctx); err != nil {
			return started, err
		}
	}
	for _, name := range clusters {
		if err := d.awaitLink(ctx, name, adminapi.Ready); err != nil {
			return started, err
		}
	}
	return started, nil
}

func (d *demo) killEast(ctx context.Context) (none time.Time, note string, err error) {
	if note, err = d.kill(ctx, east); err != nil {
		return none, "", err
	}
	return none, note, hold(ctx, d.stream, d.want, outage)
}

func (d *demo) startEast(ctx context.Context) (none time.Time, note string, err error) {
	started, err := d.restart(ctx, east)
	return none, fmt.Sprintf("%s later Isthmus reports the cluster as ready", short(time.Since(started))), err
}

func (d *demo) rotateNorth(ctx context.Context) (none time.Time, note string, err error) {
	linked, err := d.linkBy(ctx, north, secondToken)
	if err != nil {
		return none, "", err
	}
	if err := d.shops[north].Revoke(ctx, firstToken); err != nil {
		return none, "", err
	}
	return none, fmt.Sprintf(
		"the link has a new token; the deleted old token is rejected %s later",
		short(time.Since(linked)),
	), nil
}

// restartNorth restarts north's API server to check that Isthmus uses the new credentials, because
// the restart ends all connections that used the old ones.
func (d *demo) restartNorth(ctx context.Context) (none time.Time, note string, err error) {
	if _, err := d.kill(ctx, north); err != nil {
		return none, "", err
	}
	_, err = d.restart(ctx, north)
	return none, "Isthmus must authenticate again, and only the new token is still valid", err
}

// replaceIsthmus restarts Isthmus while north's API server is down, after Isthmus has copied
// north's cache. The first message of the new process must contain all endpoints.
func (d *demo) replaceIsthmus(ctx context.Context) (none time.Time, note string, err error) {
	if err := d.awaitCopy(ctx, north); err != nil {
		return none, "", err
	}
	before := d.stream.Status().Messages
	if err := d.gateway.Restart(ctx); err != nil {
		return none, "", err
	}
	d.stream.Close()
	if err := d.stream.Open(context.WithoutCancel(ctx)); err != nil {
		return none, "", err
	}
	if _, err := await(ctx, d.stream, d.want, proxy.FirstMessageLimit); err != nil {
		return none, "", err
	}
	if n := d.stream.Status().Messages - before; n != 1 {
		return none, "", fmt.Errorf("the new process needed %d messages: %v", n, d.stream.Recent())
	}
	copied, err := d.copied(ctx, north)
	return none, "its first message contains all endpoints; isthmus clusters shows north as stale, " + copied, err
}

// awaitCopy waits until Isthmus has copied the cache of a lost cluster into ConfigMaps.
func (d *demo) awaitCopy(ctx context.Context, name string) error {
	api := d.shops[west].CoreV1().ConfigMaps(kube.LinkNamespace)
	err := harness.Poll(ctx, seenLimit, 100*time.Millisecond, func() error {
		list, err := api.List(ctx, metav1.ListOptions{LabelSelector: "isthmus.io/cache-cluster=" + name})
		if err == nil && len(list.Items) == 0 {
			err = errors.New("there is no ConfigMap")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("copy of cluster %s: %w", name, err)
	}
	return nil
}

// copied runs isthmus clusters and returns the part of its output about the copy of a cluster:
// "from a copy of TIME".
func (d *demo) copied(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, seenLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, d.isthmus, "clusters", "--admin", d.gateway.MetricsAddr()).Output()
	if err != nil {
		return "", fmt.Errorf("isthmus clusters: %w", err)
	}
	found := regexp.MustCompile(`(?m)^ *` + name + ` +stale .*(from a copy of [-0-9T:]+Z)`).FindSubmatch(out)
	if found == nil {
		return "", fmt.Errorf("isthmus clusters does not show that %s is served from a copy:\n%s", name, out)
	}
	return string(found[1]), nil
}

// awaitLink waits until Isthmus shows a linked cluster in the given state.
func (d *demo) awaitLink(ctx context.Context, name string, state adminapi.ClusterState) error {
	err := harness.Poll(ctx, seenLimit, 50*time.Millisecond, func() error {
		page, err := harness.ReadClusters(ctx, d.gateway.MetricsAddr())
		if links := harness.ClustersNamed(page, name); err == nil && (len(links) == 0 || links[0].State != state) {
			err = fmt.Errorf("not %s: %+v", state, links)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("cluster %s on /debug/clusters: %w", name, err)
	}
	return nil
}
