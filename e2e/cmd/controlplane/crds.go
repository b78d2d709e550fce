package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

//go:embed crds.yaml
var crdsYAML []byte

// installCRDs applies the CRDs and waits until the API server serves all of them and lists them in
// discovery.
func installCRDs(ctx context.Context, loopback *rest.Config) error {
	crds, err := parseCRDs(crdsYAML)
	if err != nil {
		return err
	}
	cfg := unlimited(loopback)
	client, err := clientset.NewForConfig(cfg)
	if err != nil {
		return err
	}
	finder, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return err
	}
	force := true
	for _, crd := range crds {
		_, err := client.ApiextensionsV1().
			CustomResourceDefinitions().
			Patch(ctx, crd.Name, types.ApplyPatchType, crd.yaml,
				metav1.PatchOptions{FieldManager: "controlplane", Force: &force})
		if err != nil {
			return fmt.Errorf("install CRD %s: %w", crd.Name, err)
		}
	}
	for _, crd := range crds {
		err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			return served(ctx, finder, crd), nil
		})
		if err != nil {
			return fmt.Errorf("wait until %s is served: %w", crd.Name, err)
		}
	}
	return nil
}

// served reports whether all served versions of a CRD are in discovery and can be watched. Shortly
// after the creation of a CRD, the API server rejects watches with "storage is (re)initializing",
// although lists already succeed. A client that starts in between retries the watch only after more
// than a second.
func served(ctx context.Context, finder *discovery.DiscoveryClient, crd crd) bool {
	for _, version := range crd.Spec.Versions {
		if !version.Served {
			continue
		}
		group := metav1.GroupVersion{Group: crd.Spec.Group, Version: version.Name}
		list, err := finder.ServerResourcesForGroupVersion(group.String())
		discovered := err == nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool {
			return r.Name == crd.Spec.Names.Plural
		})
		if !discovered || !watchable(ctx, finder, group, crd.Spec.Names.Plural) {
			return false
		}
	}
	return true
}

func watchable(ctx context.Context, finder *discovery.DiscoveryClient, group metav1.GroupVersion, plural string) bool {
	events, err := finder.RESTClient().Get().
		AbsPath("/apis", group.Group, group.Version, plural).
		Param("watch", "true").
		Param("resourceVersion", "0").
		MaxRetries(0). // otherwise the client waits for a second after each rejection
		Stream(ctx)
	if err != nil {
		return false
	}
	_ = events.Close()
	return true
}

type crd struct {
	apiextensionsv1.CustomResourceDefinition
	yaml []byte
}

func parseCRDs(text []byte) ([]crd, error) {
	var crds []crd
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		parsed := crd{yaml: document}
		if err := yaml.UnmarshalStrict(document, &parsed.CustomResourceDefinition); err != nil {
			return nil, fmt.Errorf("parse CRDs: %w", err)
		}
		crds = append(crds, parsed)
	}
	return crds, nil
}
