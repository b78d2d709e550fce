package facts

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/version"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/kube"
	"isthmus/internal/adminapi"
	"isthmus/internal/legible"
	"isthmus/internal/sleep"
)

const (
	retryAfter = 2 * time.Minute // if something could not be read, and it is not that the credentials may not
	readWithin = time.Minute
	listsFirst = 5 * time.Second // after which facts are read even if the cluster's objects are not listed yet
)

// Facts are what Read has read. They are immutable.
type Facts struct {
	version, versionError string
	anchors               adminapi.TrustAnchors
	networks              adminapi.PodNetworks
}

// AddTo adds the facts to what is known otherwise. f may be nil: nothing has been read yet.
func (f *Facts) AddTo(s *adminapi.APIServer) {
	if f != nil {
		s.Version, s.VersionError, s.Anchors, s.Networks = f.version, f.versionError, &f.anchors, &f.networks
	}
}

// Keep passes to store what it reads of a cluster: once that has answered and its objects are listed, and again every so often
// (0: never again), until ctx ends. namespace is the control plane's.
func Keep(ctx context.Context, client *kube.Client, namespace string, listed <-chan struct{}, every time.Duration, store func(*Facts)) {
	select {
	case <-client.Answered():
	case <-ctx.Done():
		return
	}
	select {
	case <-listed:
	case <-time.After(listsFirst):
	case <-ctx.Done():
		return
	}
	for {
		facts, complete := Read(ctx, client, namespace)
		if ctx.Err() != nil {
			return
		}
		store(facts)
		wait := every
		if !complete {
			wait = retryAfter
		}
		if wait == 0 || !sleep.For(ctx, wait) {
			return
		}
	}
}

// Read reads facts of a cluster; namespace is the control plane's. It returns false if something could not be read for another reason
// than that it is not there, or that the credentials may not read it: then it may be read later.
func Read(ctx context.Context, client *kube.Client, namespace string) (f *Facts, complete bool) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	f, complete = new(Facts), true
	failed := func(what string, err error) string {
		switch {
		case apierrors.IsForbidden(err):
			return "the credentials may not read " + what
		case apierrors.IsNotFound(err):
			return what + " is not there"
		}
		complete = false
		if errors.Is(err, context.DeadlineExceeded) {
			return "no time was left to read " + what
		}
		return client.Printable(err).Error()
	}
	var err error
	if f.version, err = Version(ctx, client.Sources); err != nil {
		f.versionError, complete = client.Printable(err).Error(), false
	}
	if f.anchors.List, err = readAnchors(ctx, client.Sources, namespace); err != nil {
		f.anchors.Error = failed(fmt.Sprintf("ConfigMap %s/%s", namespace, AnchorsConfigMap), err)
	}
	if f.networks, err = readNetworks(ctx, client.Sources.NodeRanges); err != nil {
		f.networks = adminapi.PodNetworks{Error: failed("Nodes", err)}
	}
	return f, complete
}

// Version asks an API server for its version, such as v1.36.3.
func Version(ctx context.Context, from decode.Sources) (string, error) {
	var info version.Info
	err := from.Document(ctx, "/version", &info)
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		code := int(status.ErrStatus.Code)
		return "", fmt.Errorf("the API server answers %d %s for its version", code, http.StatusText(code))
	}
	if err == nil && info.GitVersion == "" {
		err = errors.New("the answer about its version is not that of an API server")
	}
	return legible.Text(info.GitVersion, legible.Short), err
}
