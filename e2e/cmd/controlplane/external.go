package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/assets"
)

// startAssets starts the prebuilt etcd and kube-apiserver as child processes, which end with this
// process. On systems other than Linux, they survive if only this process is killed and not its
// process group.
func startAssets(ctx context.Context, o serverOptions) (*servers, error) {
	found, err := assets.Find(ctx)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.dir.Kubeconfig())
	if err != nil {
		return nil, err
	}

	etcd, err := harness.StartProcess(harness.ProcessConfig{
		Path: found.Etcd.Path, Args: o.etcdArgs(), Output: os.Stderr, SameGroup: true,
	})
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	if err := etcd.Await(ctx, dialEtcd); err != nil {
		return nil, errors.Join(fmt.Errorf("etcd: %w", err), etcd.Kill())
	}
	address := o.listener.Addr().(*net.TCPAddr)
	if err := o.listener.Close(); err != nil { // reserved until now; kube-apiserver binds the port itself
		return nil, errors.Join(err, etcd.Kill())
	}
	args := append(o.apiServerArgs(), "--secure-port="+strconv.Itoa(address.Port))
	server, err := harness.StartProcess(harness.ProcessConfig{
		Path: found.APIServer.Path, Args: args, Output: os.Stderr, SameGroup: true,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("API server: %w", err), etcd.Kill())
	}

	s := newServers()
	s.kill = func() { _ = errors.Join(server.Kill(), etcd.Kill()) }
	go func() {
		<-etcd.Exited()
		s.end("etcd", etcd.Err())
	}()
	go func() {
		<-server.Exited()
		s.end("API server", server.Err())
	}()
	go func() {
		err := awaitReady(ctx, config)
		if err == nil {
			err = installCRDs(ctx, config)
		}
		if err == nil {
			err = startControllers(ctx, config, o.controllers, o.credentials)
		}
		s.ready <- err
	}()
	return s, nil
}

func dialEtcd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", "etcd:0")
	if err != nil {
		return err
	}
	return conn.Close()
}
