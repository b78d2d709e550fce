package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/version"

	"isthmus/clusterstore/decode"

	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

const readWithin = time.Minute

// Facts are what has been read of a cluster. They are immutable.
type Facts struct {
	version, versionError string
	anchors               adminapi.TrustAnchors
	anchorsAt             time.Time // when the anchors were read
	networks              adminapi.PodNetworks
	networksAt            time.Time // when the networks were read
}

// AddTo adds the facts to what is known otherwise. f may be nil: nothing has been read yet.
func (f *Facts) AddTo(s *adminapi.APIServer) {
	if f == nil {
		return
	}
	anchors, networks := f.anchors, f.networks
	anchors.AgeSeconds = int(time.Since(f.anchorsAt).Seconds())
	networks.AgeSeconds = int(time.Since(f.networksAt).Seconds())
	s.Version, s.VersionError, s.Anchors, s.Networks = f.version, f.versionError, &anchors, &networks
}

// Read reads facts of a cluster; namespace is the control plane's. It returns false if something could not be read for another reason
// than that it is not there, or that the credentials may not read it: then it may be read later.
func Read(ctx context.Context, client *Client, namespace string) (f *Facts, complete bool) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	f, complete = new(Facts), true
	var err error
	if f.version, err = Version(ctx, client.Sources); err != nil {
		f.versionError, complete = client.Printable(err).Error(), false
	}
	complete = settled(f.readAnchors(ctx, client, namespace)) && complete
	complete = settled(f.readNetworks(ctx, client)) && complete
	return f, complete
}

// readAnchors reads the trust anchors. The error is also in the facts, as text.
func (f *Facts) readAnchors(ctx context.Context, client *Client, namespace string) error {
	list, err := readAnchors(ctx, client.Sources, namespace)
	f.anchors, f.anchorsAt = adminapi.TrustAnchors{List: list}, time.Now()
	if err != nil {
		f.anchors.Error = unread(client, fmt.Sprintf("ConfigMap %s/%s", namespace, AnchorsConfigMap), err)
	}
	return err
}

// readNetworks reads the Pod CIDRs. The error is also in the facts, as text.
func (f *Facts) readNetworks(ctx context.Context, client *Client) error {
	networks, err := readNetworks(ctx, client.Sources.Nodes)
	f.networks, f.networksAt = networks, time.Now()
	if err != nil {
		f.networks = adminapi.PodNetworks{Error: unread(client, "Nodes", err)}
	}
	return err
}

// contentError is the error of an object that the API server has answered with, and that can't be used.
type contentError struct{ error }

func (e contentError) Unwrap() error { return e.error }

// settled reports whether a read has succeeded, or fails until the cluster or its RBAC permissions change.
func settled(err error) bool {
	return err == nil || apierrors.IsForbidden(err) || apierrors.IsNotFound(err)
}

// tellsPresent reports whether the result of a read, which may be an error, is the present state of the
// cluster. After other errors, such as a timeout, the state is unknown.
func tellsPresent(err error) bool {
	_, content := errors.AsType[contentError](err)
	return content || settled(err)
}

// unread describes why something can't be read.
func unread(client *Client, what string, err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return "the credentials may not read " + what
	case apierrors.IsNotFound(err):
		return what + " is not there"
	case errors.Is(err, context.DeadlineExceeded):
		return "no time was left to read " + what
	}
	return client.Printable(err).Error()
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
	return text.Clean(info.GitVersion, text.Short), err
}
