//go:build !assets

package main

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// startEtcd starts etcd in the working directory. It is configured for a single member that starts
// often and needs no long history. It ticks ten times per second, because a hundred ticks per
// second in dozens of idle clusters use half a core.
func startEtcd(dir stateDir) (*embed.Etcd, error) {
	wal.SegmentSizeBytes = 4 << 20 // the default allocates 64 MB immediately
	cfg := embed.NewConfig()
	cfg.Dir = dir.EtcdData()
	cfg.ListenClientUrls = []url.URL{{Scheme: "unix", Host: "etcd:0"}}
	cfg.ListenPeerUrls = []url.URL{{Scheme: "unix", Host: "peer:0"}}
	// Nothing uses these URLs, but etcd requires valid ones.
	cfg.AdvertiseClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:1"}}
	cfg.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:2"}}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.TickMs, cfg.ElectionMs = 100, 1000
	cfg.UnsafeNoFsync = true
	cfg.LogLevel = "warn"
	cfg.LogOutputs = []string{"stderr"}
	return embed.StartEtcd(cfg)
}

// awaitEtcd waits until etcd has elected itself as leader, which takes up to a second.
func awaitEtcd(etcd *embed.Etcd) error {
	const limit = 30 * time.Second
	select {
	case <-etcd.Server.ReadyNotify():
		return nil
	case err := <-etcd.Err():
		return err
	case <-etcd.Server.StopNotify():
		return errors.New("stopped while it started")
	case <-time.After(limit):
		return fmt.Errorf("not ready after %v", limit)
	}
}
