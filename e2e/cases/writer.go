package cases

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

var (
	slicesResource   = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
	servicesResource = schema.GroupVersionResource{Version: "v1", Resource: "services"}
)

// writer writes the objects of a case to one cluster. Only one case at a time may use it.
type writer struct{ *kube.Client }

// written identifies an object that a case has written.
type written struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

func newWriter(name string, cfg *rest.Config) (*writer, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = 30 * time.Second
	client, err := kube.NewClient(name, cfg)
	return &writer{client}, err
}

// delete deletes an object. The kind is a lower-case singular name. The namespace is ignored for
// cluster-scoped objects.
func (w *writer) delete(ctx context.Context, kind, namespace, name string, grace int64) error {
	resource, namespaced, err := w.ResourceNamed(kind)
	if err != nil {
		return err
	}
	if !namespaced {
		namespace = ""
	}
	return w.remove(ctx, written{resource, namespace, name}, grace)
}

func (w *writer) remove(ctx context.Context, o written, grace int64) error {
	background := metav1.DeletePropagationBackground
	err := w.In(o.resource, o.namespace).Delete(ctx, o.name,
		metav1.DeleteOptions{GracePeriodSeconds: &grace, PropagationPolicy: &background})
	if err != nil {
		return fmt.Errorf("cluster %s: delete %s %s/%s: %w", w.Name, o.resource.Resource, o.namespace, o.name, err)
	}
	return nil
}

// ensureNamespace waits until the namespace and its default ServiceAccount exist. It waits for a
// namespace in deletion to disappear and creates a new one.
func (w *writer) ensureNamespace(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	final := func(err error) error { // stops waiting if a retry cannot help
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			cancel()
		}
		return err
	}
	err := harness.Poll(ctx, time.Minute, 50*time.Millisecond, func() error {
		err := kube.Create(ctx, w.CoreV1().Namespaces(), kube.Namespace(name))
		if !apierrors.IsAlreadyExists(err) {
			return final(err)
		}
		found, err := w.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if err == nil && found.DeletionTimestamp != nil {
			err = errors.New("the previous namespace is still being deleted")
		}
		return final(err)
	})
	if err == nil {
		err = harness.Poll(ctx, time.Minute, 5*time.Millisecond, func() error {
			_, err := w.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
			return final(err)
		})
	}
	if err != nil {
		return fmt.Errorf("cluster %s: namespace %s: %w", w.Name, name, err)
	}
	return nil
}

// removeEach deletes all objects of a resource in a namespace that match the label selector.
func (w *writer) removeEach(ctx context.Context, of schema.GroupVersionResource, namespace, labels string) error {
	err := w.In(of, namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: labels})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cluster %s: delete the %s of %s: %w", w.Name, of.Resource, namespace, err)
	}
	return nil
}

func (w *writer) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := w.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
		return fmt.Errorf("cluster %s: /readyz: %w", w.Name, err)
	}
	return nil
}

// mcsVersions maps the arguments of the mcs command to versions of the MCS API.
var mcsVersions = map[string][]string{"both": kube.MCSVersions, "v1alpha1": {"v1alpha1"}, "unserved": nil, noMCS: nil}

const noMCS = "none"

// parseMCS parses: mcs both|v1alpha1|unserved|none CLUSTER...
func parseMCS(_ *parser, args []string) (action, error) {
	var errs []error
	if _, ok := mcsVersions[args[0]]; !ok {
		errs = append(errs, fmt.Errorf("%q is not one of %q", args[0], slices.Sorted(maps.Keys(mcsVersions))))
	}
	for _, cluster := range args[1:] {
		errs = append(errs, knownCluster(cluster))
	}
	return func(ctx context.Context, r *run) error { return setMCS(ctx, r, args[0], args[1:]) }, errors.Join(errs...)
}

func setMCS(ctx context.Context, r *run, versions string, clusters []string) error {
	for _, cluster := range clusters {
		r.mcs[cluster] = true
	}
	return r.eachCluster(func(w *writer) error {
		switch {
		case !slices.Contains(clusters, w.Name):
			return nil
		case versions == noMCS:
			return w.RemoveMCS(ctx)
		}
		return w.ServeMCS(ctx, mcsVersions[versions]...)
	})
}

// parseExport parses: export CLUSTER [NS/]NAME [options].
func parseExport(p *parser, args []string) (action, error) {
	opt, err := readOptions(args[2:], "v1alpha1")
	if err != nil {
		return nil, err
	}
	version := "v1beta1"
	if old := "v1alpha1"; opt.flags[old] {
		version = old
	}
	namespace, name := p.named(args[1])
	o := object{
		"apiVersion": mcs.GroupName + "/" + version,
		"kind":       "ServiceExport",
		"metadata":   object{"name": name, "namespace": namespace},
		"spec":       object{"exportedLabels": opt.labels, "exportedAnnotations": opt.annotations},
	}
	return func(ctx context.Context, r *run) error {
		return r.apply(ctx, args[0], &unstructured.Unstructured{Object: o})
	}, nil
}

func (w *writer) readMCS(ctx context.Context, kind, namespace, name string, into any) error {
	resource, _, err := w.ResourceNamed(kind)
	if err != nil {
		return err
	}
	o, err := w.In(resource, namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into)
}

// readImport reads a ServiceImport. It returns an error if the IPs of a ready ServiceImport differ
// from those of the derived Service. By default, a ServiceImport with the mark is expected to be
// ready if it is headless or has IPs. Without the mark, any status is accepted.
func readImport(ctx context.Context, w *writer, namespace, name string) (seen, error) {
	var i mcs.ServiceImport
	if err := w.readMCS(ctx, "serviceimport", namespace, name, &i); err != nil {
		return seen{}, err
	}
	derived := &corev1.Service{}
	if name := i.Annotations["multicluster.kubernetes.io/derived-service"]; name != "" {
		s, err := w.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return seen{}, err
		}
		if err == nil && s.Labels["isthmus.io/written-by"] != "" {
			derived = s
		}
	}
	ready := meta.IsStatusConditionTrue(i.Status.Conditions, "Ready")
	same := slices.Equal(i.Spec.IPs, derived.Spec.ClusterIPs) &&
		slices.Equal(i.Spec.IPFamilies, derived.Spec.IPFamilies)
	if (ready || len(i.Spec.IPs) == 0) && !same {
		return seen{}, fmt.Errorf("the IPs are %v %v, those of the derived Service are %q %v %v",
			i.Spec.IPs, i.Spec.IPFamilies, derived.Name, derived.Spec.ClusterIPs, derived.Spec.IPFamilies)
	}
	usual := make(map[string]string)
	switch {
	case i.Labels["isthmus.io/written-by"] == "":
	case len(i.Spec.IPs) > 0 || i.Spec.Type == mcs.Headless:
		usual["ready"] = "True/Ready"
	default:
		usual["ready"] = "False/Pending"
	}
	s := &corev1.Service{}
	for _, p := range i.Spec.Ports {
		s.Spec.Ports = append(
			s.Spec.Ports,
			corev1.ServicePort{Name: p.Name, Protocol: p.Protocol, AppProtocol: p.AppProtocol, Port: p.Port},
		)
	}
	var clusters, families []string
	for _, c := range i.Status.Clusters {
		clusters = append(clusters, c.Cluster)
	}
	for _, f := range i.Spec.IPFamilies {
		families = append(families, string(f))
	}
	condition, message := conditionFields(i.Status.Conditions, "Ready")
	fields := map[string]string{
		"type":          string(i.Spec.Type),
		"ports":         strings.ReplaceAll(ports(s), "/0", ""),
		"affinity":      affinity(i.Spec.SessionAffinity, i.Spec.SessionAffinityConfig),
		"families":      strings.Join(families, ","),
		"clusters":      strings.Join(clusters, ","),
		"slices":        string(i.Status.EndpointSliceObjects),
		"ready":         condition,
		"ready-message": message,
	}
	return seen{Object: &i, ip: strings.Join(i.Spec.IPs, ","), fields: fields, usual: usual}, nil
}

// conditionFields returns a condition as STATUS/REASON, or none, and the condition's message.
func conditionFields(all []metav1.Condition, kind string) (condition, message string) {
	c := meta.FindStatusCondition(all, kind)
	if c == nil {
		return "none", ""
	}
	return strings.TrimSuffix(string(c.Status)+"/"+c.Reason, "/"), c.Message
}

// readExport reads a ServiceExport and checks that its conditions match the current generation.
func readExport(ctx context.Context, w *writer, namespace, name string) (seen, error) {
	var e mcs.ServiceExport
	if err := w.readMCS(ctx, "serviceexport", namespace, name, &e); err != nil {
		return seen{}, err
	}
	fields := make(map[string]string)
	for _, key := range []string{"valid", "ready", "conflict"} {
		kind := strings.ToUpper(key[:1]) + key[1:]
		if c := meta.FindStatusCondition(e.Status.Conditions, kind); c != nil && c.ObservedGeneration != e.Generation {
			return seen{}, fmt.Errorf("condition %s has generation %d, want %d",
				kind, c.ObservedGeneration, e.Generation)
		}
		fields[key], fields[key+"-message"] = conditionFields(e.Status.Conditions, kind)
	}
	fields["message"] = fields["conflict-message"]
	return seen{Object: &e, fields: fields}, nil
}
