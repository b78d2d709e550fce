package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/clientcmd"

	"isthmus/clusterstore/crd"
	"isthmus/clusterstore/decode"
	"isthmus/internal/apisim"
)

// TestSources: what an API server has comes through the sources, of each kind, by lists in pages and watches.
func TestSources(t *testing.T) {
	authority, err := apisim.NewAuthority()
	must(t, err)
	server, err := apisim.Start("east", authority)
	must(t, err)
	defer func() { must(t, server.Close()) }()
	server.Admit("good")
	kubeconfig, err := server.Kubeconfig(server.Addr(), "good")
	must(t, err)
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	must(t, err)
	c, err := New("east", config, nil)
	must(t, err)
	defer c.Close()

	for i := range 3 {
		m := metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("o", i), Labels: map[string]string{"a": "b"}}
		node := m
		node.Namespace = ""
		for _, o := range []runtime.Object{
			&corev1.Pod{ObjectMeta: m, Spec: corev1.PodSpec{NodeName: "n"}}, &corev1.Service{ObjectMeta: m}, &discoveryv1.EndpointSlice{ObjectMeta: m},
			&corev1.Secret{ObjectMeta: m, Type: "x"}, &corev1.Node{ObjectMeta: node},
			//lint:ignore SA1019 they are read with --enable-endpoint-slices=false
			&corev1.Endpoints{ObjectMeta: m},
			&crd.Server{TypeMeta: metav1.TypeMeta{Kind: "Server", APIVersion: crd.PolicyVersion.String()}, ObjectMeta: m},
		} {
			must(t, server.Put(o))
		}
	}
	readAll(t, "pods", c.Sources.Pods)
	readAll(t, "services", c.Sources.Services)
	readAll(t, "endpointslices", c.Sources.EndpointSlices)
	readAll(t, "endpoints", c.Sources.Endpoints)
	readAll(t, "secrets", c.Sources.Secrets("ns"))
	readAll(t, "nodes", c.Sources.Nodes)
	readAll(t, "servers", c.Sources.Servers)

	server.Misbehave(apisim.Faults{Forbidden: []string{"pods"}, Absent: []string{"servers"}})
	if _, err := c.Sources.Pods.List(t.Context(), metav1.ListOptions{}, nil); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "pods is forbidden") {
		t.Errorf("forbidden: %v", err)
	}
	if _, err := c.Sources.Servers.Watch(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("absent: %v", err)
	}
}

// readAll lists objects in two pages, and watches them from a list on.
func readAll[O decode.Object](t *testing.T, what string, from decode.Source[O]) {
	t.Helper()
	var names []string
	options := metav1.ListOptions{Limit: 2}
	version := ""
	for range 2 {
		list, err := from.List(t.Context(), options, func(o O, refused *decode.Refused) error {
			if refused != nil || o.GetLabels()["a"] != "b" || o.GetResourceVersion() == "" {
				t.Errorf("%s: %+v, %+v", what, o, refused)
			}
			names = append(names, strings.Clone(o.GetName()))
			return nil
		})
		must(t, err)
		options.Continue, version = list.Continue, list.ResourceVersion
	}
	if got := fmt.Sprint(names); got != "[o0 o1 o2]" || version == "" || options.Continue != "" {
		t.Errorf("%s: listed %s at %q, and more: %q", what, got, version, options.Continue)
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	yes := true
	w, err := from.Watch(ctx, metav1.ListOptions{SendInitialEvents: &yes, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	must(t, err)
	var events []string
	for range 4 {
		must(t, w.Next(func(e decode.Event[O]) error {
			events = append(events, fmt.Sprint(e.Type, " ", e.Object.GetName()))
			if last := e.Type == watch.Bookmark; last && e.Object.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" {
				t.Errorf("%s: the bookmark is %+v", what, e.Object)
			}
			return nil
		}))
	}
	if got := fmt.Sprint(events); got != "[ADDED o0 ADDED o1 ADDED o2 BOOKMARK ]" {
		t.Errorf("%s: %s", what, got)
	}
	must(t, w.Close())
	if err := w.Next(func(decode.Event[O]) error { return nil }); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("%s: %v after Close", what, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
