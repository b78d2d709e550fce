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
func Read(ctx context.Context, client *kube.Client, namespace string) (f *Facts, complete bool) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	f, complete = new(Facts), true
	var err error
	if f.version, err = Version(ctx, client.Sources); err != nil {
		f.versionError, complete = client.Printable(err).Error(), false
	}
	complete = f.readAnchors(ctx, client, namespace) && complete
	complete = f.readNetworks(ctx, client) && complete
	return f, complete
}

// readAnchors reads the trust anchors. It returns what Read returns.
func (f *Facts) readAnchors(ctx context.Context, client *kube.Client, namespace string) (complete bool) {
	list, err := readAnchors(ctx, client.Sources, namespace)
	f.anchors, f.anchorsAt, complete = adminapi.TrustAnchors{List: list}, time.Now(), true
	if err != nil {
		what := fmt.Sprintf("ConfigMap %s/%s", namespace, AnchorsConfigMap)
		f.anchors.Error, complete = unread(client, what, err)
	}
	return complete
}

// readNetworks reads the Pod CIDRs. It returns what Read returns.
func (f *Facts) readNetworks(ctx context.Context, client *kube.Client) (complete bool) {
	networks, err := readNetworks(ctx, client.Sources.NodeRanges)
	f.networks, f.networksAt, complete = networks, time.Now(), true
	if err != nil {
		f.networks = adminapi.PodNetworks{}
		f.networks.Error, complete = unread(client, "Nodes", err)
	}
	return complete
}

// unread describes why something can't be read. It returns false if that may pass.
func unread(client *kube.Client, what string, err error) (text string, complete bool) {
	switch {
	case apierrors.IsForbidden(err):
		return "the credentials may not read " + what, true
	case apierrors.IsNotFound(err):
		return what + " is not there", true
	case errors.Is(err, context.DeadlineExceeded):
		return "no time was left to read " + what, false
	}
	return client.Printable(err).Error(), false
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
