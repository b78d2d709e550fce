package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// wantedService is what a case expects of a Service.
type wantedService struct {
	cluster, namespace, name string
	opt                      options
}

// parseExpectSvc is for: expect-svc CLUSTER [NS/]NAME [options].
func parseExpectSvc(p *parser, args []string) (action, error) {
	opt, err := readOptions(args[2:], "none", "ports=", "without=", "note", "same", "other", "untouched")
	if err != nil {
		return nil, err
	}
	w := wantedService{cluster: args[0], opt: opt}
	w.namespace, w.name = p.named(args[1])
	return func(ctx context.Context, r *run) error {
		return eventually(ctx, wait{limit: r.runner.opt.Timeout, poll: 50 * time.Millisecond, hold: holdTime}, func() (int64, error) {
			return 0, w.check(ctx, r)
		})
	}, knownCluster(args[0])
}

func (w wantedService) check(ctx context.Context, r *run) error {
	c, err := r.writer(w.cluster)
	if err != nil {
		return err
	}
	s, err := c.CoreV1().Services(w.namespace).Get(ctx, w.name, metav1.GetOptions{})
	switch none := w.opt.flags["none"]; {
	case apierrors.IsNotFound(err) && none:
		return nil
	case err != nil:
		return fmt.Errorf("cluster %s: service %s/%s: %w", w.cluster, w.namespace, w.name, err)
	case none:
		return fmt.Errorf("cluster %s has a service %s/%s\n%s", w.cluster, w.namespace, w.name, shownService(s))
	}
	return w.compare(s, r)
}

func (w wantedService) compare(s *corev1.Service, r *run) error {
	if err := errors.Join(w.keys(s), w.identity(s, r)); err != nil {
		return fmt.Errorf("%w\n%s", err, shownService(s))
	}
	return nil
}

// keys compares labels, annotations and ports.
func (w wantedService) keys(s *corev1.Service) error {
	var errs []error
	compare := func(what string, want map[string]any, have map[string]string) {
		for key, value := range want {
			if now, ok := have[key]; !ok || now != value {
				errs = append(errs, fmt.Errorf("%s %s is %q, not %q", what, key, now, value))
			}
		}
	}
	compare("label", w.opt.labels, s.Labels)
	compare("annotation", w.opt.annotations, s.Annotations)
	for _, key := range w.opt.values["without"] {
		_, label := s.Labels[key]
		if _, annotation := s.Annotations[key]; label || annotation {
			errs = append(errs, fmt.Errorf("%s is there", key))
		}
	}
	if want := w.opt.values["ports"]; want != nil && want[0] != ports(s) {
		errs = append(errs, fmt.Errorf("the ports are %s, not %s", ports(s), want[0]))
	}
	return errors.Join(errs...)
}

// identity compares the Service with what was noted of it before, or notes it.
func (w wantedService) identity(s *corev1.Service, r *run) error {
	id := w.cluster + "/" + w.namespace + "/" + w.name
	before := r.services[id]
	switch {
	case w.opt.flags["note"]:
		r.services[id] = s
	case before == nil && (w.opt.flags["same"] || w.opt.flags["other"] || w.opt.flags["untouched"]):
		return final{errors.New("nothing was noted of it")}
	case w.opt.flags["same"] && (s.UID != before.UID || s.Spec.ClusterIP != before.Spec.ClusterIP):
		return errors.New("it is another one")
	case w.opt.flags["other"] && s.UID == before.UID:
		return errors.New("it is the same one")
	case w.opt.flags["untouched"] && s.ResourceVersion != before.ResourceVersion:
		return errors.New("it has been written")
	}
	return nil
}

// ports are a Service's, in their order, as [NAME=]PORT/TARGETPORT[:PROTOCOL][:APPPROTOCOL],...
func ports(s *corev1.Service) string {
	var all []string
	for _, p := range s.Spec.Ports {
		text := fmt.Sprintf("%d/%s", p.Port, p.TargetPort.String())
		if p.Name != "" {
			text = p.Name + "=" + text
		}
		if p.Protocol != corev1.ProtocolTCP {
			text += ":" + string(p.Protocol)
		}
		if p.AppProtocol != nil {
			text += ":" + *p.AppProtocol
		}
		all = append(all, text)
	}
	return strings.Join(all, ",")
}

func shownService(s *corev1.Service) string {
	return fmt.Sprintf("labels %v\nannotations %v\nports %s", s.Labels, s.Annotations, ports(s))
}

// parsePatch is for: patch CLUSTER KIND [NS/]NAME JSON.
func parsePatch(p *parser, args []string) (action, error) {
	namespace, name := p.named(args[2])
	return func(ctx context.Context, r *run) error {
		w, err := r.writer(args[0])
		if err != nil {
			return err
		}
		resource, namespaced, err := w.ResourceNamed(args[1])
		if err != nil {
			return err
		}
		if !namespaced {
			namespace = ""
		}
		if _, err = w.In(resource, namespace).Patch(ctx, name, types.MergePatchType, []byte(args[3]), metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
			return fmt.Errorf("cluster %s: patch %s %s/%s: %w", args[0], args[1], namespace, name, err)
		}
		return nil
	}, knownCluster(args[0])
}

// removeWritten deletes what a gateway has written into the case's namespaces of its own cluster.
func (r *run) removeWritten(ctx context.Context) error {
	var errs []error
	for namespace := range r.namespaces[ClusterNames[0]] {
		if !strings.HasPrefix(namespace, r.c.Name) {
			continue
		}
		services := r.runner.writers[ClusterNames[0]].CoreV1().Services(namespace)
		all, err := services.List(ctx, metav1.ListOptions{LabelSelector: "isthmus.io/written-by"})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, s := range all.Items {
			if err := services.Delete(ctx, s.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
