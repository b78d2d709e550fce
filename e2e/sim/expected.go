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

// Package spec says which Services and ServiceImports Isthmus writes for exports, and of which clusters. The laws
// of local/exports/plan compare with the same reference, and with the contents of objects besides.

// marked reports whether a Service has the mark of the gateway.
func marked(o *corev1.Service) bool {
	return markedAs("Service", o) && len(o.Spec.Selector) == 0
}

func markedAs(kind string, o metav1.Object) bool {
	return o.GetLabels()[writtenByKey] == kube.LinkNamespace &&
		o.GetAnnotations()[writtenAsKey] == kind+" "+o.GetNamespace()+"/"+o.GetName()
}

// lawfulService returns what is wrong with a write to a Service in the place of had (nil: there was none).
func lawfulService(o, had *corev1.Service) error {
	switch {
	case !marked(o):
		return fmt.Errorf("the gateway has written the Service %s/%s without its mark", o.Namespace, o.Name)
	case o.Namespace != exportNamespace:
		return fmt.Errorf(
			"the gateway has written the Service %s/%s in a namespace that is not allowed",
			o.Namespace,
			o.Name,
		)
	case had != nil && (had.UID != o.UID || had.Labels[usersKey] != o.Labels[usersKey]):
		return fmt.Errorf(
			"the gateway has written the Service %s/%s anew, or without what a user has set",
			o.Namespace,
			o.Name,
		)
	}
	return nil
}

// members are the clusters that have what is to be written at a name, in order. The local one is "".
type members []string

// exportsExpected returns which Services and ServiceImports are to be written, as package spec says. Services of
// ServiceImports are not among the Services.
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

// byName returns the clusters that have a part in objects of the namespace of exports, sorted, by the objects' names.
func byName(written map[spec.ID][]string) map[string]members {
	all := make(map[string]members)
	for id, clusters := range written {
		slices.Sort(clusters)
		all[id.Name] = clusters
	}
	return all
}

// exports returns what a cluster exports, read from its objects.
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

// exported waits until what is written for exports is what it should be, every other round, since
// that takes long: the gateway writes what changes often ever less often. It returns what the
// gateway must not have written.
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

// exportsWithin is longer than two of the longest pauses between writes, for which a ServiceImport
// and then its IPs wait, and what is held.
const exportsWithin = 150 * time.Second

// exportsWrong returns how what is written differs from what is expected.
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
		case !marked(o), wanted && should == nil, vague(w, is), vague(w, should): // a user's; or not known
		case !slices.Equal(is, should):
			return fmt.Errorf("the Service %s is of %q, should be of %q", o.Name, is, should)
		default:
			w.exports.right++
		}
	}
	for name, should := range want {
		if should != nil && !vague(w, should) {
			return fmt.Errorf("there is no Service %s of %q", name, should)
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

// vague reports whether one of the clusters is not known as it is.
func vague(w *world, of members) bool {
	away := away(w)
	return slices.ContainsFunc(of, func(name string) bool {
		c := w.named(name)
		return c != nil && (away[c] || !c.link.good())
	})
}
