package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/internal/spec"
)

// Package spec decides which Services and ServiceImports Isthmus writes for exports, and which
// clusters they name. The property tests of local/exports/plan use the same reference, and also
// check the contents of the objects.

// marked reports whether a Service has Isthmus' mark.
func marked(o *corev1.Service) bool {
	return markedAs("Service", o) && len(o.Spec.Selector) == 0
}

func markedAs(kind string, o metav1.Object) bool {
	return o.GetLabels()[writtenByKey] == kube.LinkNamespace &&
		o.GetAnnotations()[writtenAsKey] == kind+" "+o.GetNamespace()+"/"+o.GetName()
}

// lawfulService returns an error if Isthmus must not write o over had. If had is nil, o was
// created.
func lawfulService(o, had *corev1.Service) error {
	switch {
	case !marked(o):
		return fmt.Errorf("the Service %s/%s was written without its mark", o.Namespace, o.Name)
	case o.Namespace != exportNamespace:
		return fmt.Errorf(
			"the Service %s/%s was written in a namespace that is not allowed",
			o.Namespace,
			o.Name,
		)
	case had != nil && (had.UID != o.UID || had.Labels[usersKey] != o.Labels[usersKey]):
		return fmt.Errorf(
			"the Service %s/%s was recreated, or lost a label that a user had set",
			o.Namespace,
			o.Name,
		)
	}
	return nil
}

// members are the sorted names of the clusters that take part in an object. The local cluster is
// "".
type members []string

// exportsExpected returns the Services and ServiceImports that Isthmus should write, according to
// package spec. The derived Services of ServiceImports are not included.
func exportsExpected(w *world) (services, imports map[string]members, err error) {
	var clusters []spec.Exporter
	for _, c := range w.clusters {
		if !c.linked() {
			continue
		}
		one, err := exports(c)
		if err != nil {
			return nil, nil, err
		}
		clusters = append(clusters, one)
	}
	written := spec.WrittenFor(clusters)
	return byName(written.Services), byName(written.Imports), nil
}

// byName returns the sorted clusters of each object in the namespace of exports, by name.
func byName(written map[spec.ID][]string) map[string]members {
	all := make(map[string]members)
	for id, clusters := range written {
		slices.Sort(clusters)
		all[id.Name] = clusters
	}
	return all
}

// exports returns what a cluster exports, according to its objects.
func exports(c *cluster) (spec.Exporter, error) {
	one := spec.Exporter{}
	if c.number > 0 {
		one.Name = c.name
		one.Joins = map[string]spec.Joins{
			"mirrors": spec.JoinOnlyMirrors,
			"none":    spec.JoinNone,
		}[annotations(c)[exportsKey]]
	}
	list, err := c.api.Objects("services", exportNamespace)
	exports, err2 := read[mcs.ServiceExport](c, "serviceexports")
	if err := errors.Join(err, err2); err != nil {
		return one, err
	}
	for _, o := range list {
		o := o.(*corev1.Service)
		one.Exports = append(one.Exports, spec.Export{
			ID:            spec.ID{Namespace: o.Namespace, Name: o.Name},
			Mirror:        o.Labels[exportedKey] == "remote-discovery",
			Federated:     o.Labels[memberKey] == "member",
			ServiceExport: exports[o.Name] != nil,
			Headless:      o.Spec.ClusterIP == corev1.ClusterIPNone,
			Unusable: o.Spec.Type == corev1.ServiceTypeExternalName ||
				o.Labels[writtenByKey]+o.Labels[mirroredKey] != "",
		})
	}
	return one, nil
}

// exported returns what Isthmus must not have written. Every other round, it first waits until the
// objects of exports converge. Isthmus writes an object that changes often with growing pauses, so
// this takes long.
func exported(ctx context.Context, s *simulation, round int) (err error) {
	w := s.world
	if round%2 == 0 {
		err = harness.Poll(
			ctx,
			exportsWithin,
			50*time.Millisecond,
			func() error { return errors.Join(exportsWrong(w), pending(ctx, s)) },
		)
	}
	w.exports.mu.Lock()
	defer w.exports.mu.Unlock()
	return errors.Join(append(w.exports.errs, err)...)
}

// exportsWithin is longer than two of the longest pauses between writes, plus the time for which
// removed exports stay. A ServiceImport waits for one pause, and then its IPs for another.
const exportsWithin = 150 * time.Second

// exportsWrong returns how the written Services and ServiceImports differ from the expected ones.
func exportsWrong(w *world) error {
	want, imports, err := exportsExpected(w)
	if err != nil {
		return err
	}
	list, err := w.exports.services()
	if err := errors.Join(err, importsWrong(w, imports, want)); err != nil {
		return err
	}
	w.exports.right = 0
	for _, o := range list {
		should, wanted := want[o.Name]
		delete(want, o.Name)
		switch is := membersOf(o); {
		case !marked(o), wanted && should == nil, vague(w, is), vague(w, should): // a user's Service, or not known
		case !slices.Equal(is, should):
			return fmt.Errorf("the Service %s names clusters %q, should name %q", o.Name, is, should)
		default:
			w.exports.right++
		}
	}
	for name, should := range want {
		if should != nil && !vague(w, should) {
			return fmt.Errorf("there is no Service %s for clusters %q", name, should)
		}
	}
	return nil
}

// membersOf returns the clusters that a Service names.
func membersOf(o *corev1.Service) (list members) {
	if c := o.Labels[kube.RemoteDiscovery]; c != "" {
		return members{c}
	}
	if o.Annotations[kube.LocalDiscovery] != "" {
		list = append(list, "")
	}
	for item := range strings.SplitSeq(o.Annotations[kube.RemoteDiscovery], ",") {
		if _, c, ok := strings.Cut(item, "@"); ok {
			list = append(list, c)
		}
	}
	slices.Sort(list)
	return list
}

// vague reports whether Isthmus may not know the current state of one of the clusters.
func vague(w *world, of members) bool {
	away := away(w)
	return slices.ContainsFunc(of, func(name string) bool {
		c := w.named(name)
		return c != nil && (away[c] || !c.link.good())
	})
}
