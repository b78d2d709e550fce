package cases

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// wanted is the expected state of an object that Isthmus writes.
type wanted struct {
	cluster, kind, namespace, name string
	opt                            options
	read                           reader
}

// These are the fields that the expect commands can check.
var (
	serviceFields = []string{"ports=", "affinity=", "families=", "policy="}
	importFields  = []string{
		"type=", "ports=", "affinity=", "families=", "clusters=", "slices=", "ready=", "ready-message=",
	}
	exportFields = []string{"valid=", "ready=", "ready-message=", "conflict=", "message="}
)

type reader func(ctx context.Context, w *writer, namespace, name string) (seen, error)

type seen struct {
	metav1.Object
	ip     string            // a different value means a different object
	fields map[string]string // field values by option name
	usual  map[string]string // default expected values of fields
}

// parseExpectObject returns a parser for: expect-KIND CLUSTER [NS/]NAME [options]. The given fields
// are options too.
func parseExpectObject(kind string, read reader, fields ...string) func(*parser, []string) (action, error) {
	return func(p *parser, args []string) (action, error) {
		opt, err := readOptions(
			args[2:],
			append([]string{"none", "without=...", "note", "same", "other", "untouched"}, fields...)...)
		if err != nil {
			return nil, err
		}
		w := wanted{cluster: args[0], kind: kind, opt: opt, read: read}
		w.namespace, w.name = p.named(args[1])
		return func(ctx context.Context, r *run) error {
			return eventually(
				ctx,
				wait{limit: r.runner.opt.Timeout, poll: 50 * time.Millisecond, hold: holdTime},
				func() (int64, error) {
					return 0, w.check(ctx, r)
				},
			)
		}, nil
	}
}

func (w wanted) check(ctx context.Context, r *run) error {
	c, err := r.writer(w.cluster)
	if err != nil {
		return err
	}
	s, err := w.read(ctx, c, w.namespace, w.name)
	switch none := w.opt.flags["none"]; {
	case none && (apierrors.IsNotFound(err) || meta.IsNoMatchError(err)):
		return nil
	case none && err == nil:
		return fmt.Errorf("cluster %s has a %s %s/%s\n%s", w.cluster, w.kind, w.namespace, w.name, s)
	case err != nil:
		return fmt.Errorf("cluster %s: %s %s/%s: %w", w.cluster, w.kind, w.namespace, w.name, err)
	}
	return w.compare(s, r)
}

func (w wanted) compare(s seen, r *run) error {
	if err := errors.Join(w.keys(s), w.identity(s, r)); err != nil {
		return fmt.Errorf("%w\n%s", err, s)
	}
	return nil
}

func (w wanted) keys(s seen) error {
	var errs []error
	compare := func(what string, want map[string]any, have map[string]string) {
		for key, value := range want {
			if now, ok := have[key]; !ok || now != value {
				errs = append(errs, fmt.Errorf("%s %s is %q, want %q", what, key, now, value))
			}
		}
	}
	compare("label", w.opt.labels, s.GetLabels())
	compare("annotation", w.opt.annotations, s.GetAnnotations())
	for _, key := range w.opt.values["without"] {
		_, label := s.GetLabels()[key]
		if _, annotation := s.GetAnnotations()[key]; label || annotation {
			errs = append(errs, fmt.Errorf("%s exists", key))
		}
	}
	for key, now := range s.fields {
		usual, isUsual := s.usual[key]
		want := w.opt.values[key]
		if want == nil && isUsual {
			want = []string{usual}
		}
		if want != nil && !holds(key, want[0], now) {
			errs = append(errs, fmt.Errorf("%s is %q, want %q", key, now, want[0]))
		}
	}
	return errors.Join(errs...)
}

// holds reports whether a field has the value from an option. The values of message options are
// regular expressions.
func holds(key, want, now string) bool {
	if key == "message" || key == "ready-message" {
		return regexp.MustCompile(want).MatchString(now)
	}
	return want == now
}

// identity notes an object, or compares it with the object noted before.
func (w wanted) identity(s seen, r *run) error {
	id := w.cluster + "/" + w.kind + "/" + w.namespace + "/" + w.name
	before, noted := r.written[id]
	switch {
	case w.opt.flags["note"]:
		r.written[id] = s
	case !noted && (w.opt.flags["same"] || w.opt.flags["other"] || w.opt.flags["untouched"]):
		return final{errors.New("the object was not noted")}
	case w.opt.flags["same"] && (s.GetUID() != before.GetUID() || s.ip != before.ip):
		return errors.New("the object was recreated")
	case w.opt.flags["other"] && s.GetUID() == before.GetUID():
		return errors.New("the object was not recreated")
	case w.opt.flags["untouched"] && s.GetResourceVersion() != before.GetResourceVersion():
		return errors.New("the object was written")
	}
	return nil
}

func (s seen) String() string {
	text := fmt.Sprintf("labels %v\nannotations %v", s.GetLabels(), s.GetAnnotations())
	for _, key := range slices.Sorted(maps.Keys(s.fields)) {
		text += fmt.Sprintf("\n%s %s", key, s.fields[key])
	}
	return text
}

func readService(ctx context.Context, w *writer, namespace, name string) (seen, error) {
	s, err := w.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return seen{}, err
	}
	return seenService(s), nil
}

func seenService(s *corev1.Service) seen {
	var families []string
	for _, f := range s.Spec.IPFamilies {
		families = append(families, string(f))
	}
	fields := map[string]string{
		"ports":    ports(s),
		"affinity": affinity(s.Spec.SessionAffinity, s.Spec.SessionAffinityConfig),
		"families": strings.Join(families, ","),
		"policy":   "",
	}
	if p := s.Spec.IPFamilyPolicy; p != nil {
		fields["policy"] = string(*p)
	}
	return seen{Object: s, ip: s.Spec.ClusterIP, fields: fields}
}

// affinity returns None, or ClientIP with its timeout in seconds.
func affinity(of corev1.ServiceAffinity, config *corev1.SessionAffinityConfig) string {
	if config == nil || config.ClientIP == nil || config.ClientIP.TimeoutSeconds == nil {
		return string(of)
	}
	return fmt.Sprintf("%s/%d", of, *config.ClientIP.TimeoutSeconds)
}

// ports describes a Service's ports in order: [NAME=]PORT/TARGETPORT[:PROTOCOL][:APPPROTOCOL],...
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

// parsePatch parses: patch CLUSTER KIND [NS/]NAME JSON.
func parsePatch(p *parser, args []string) (action, error) {
	namespace, name := p.named(args[2])
	return func(ctx context.Context, r *run) error {
		w, err := r.writer(args[0])
		if err != nil {
			return err
		}
		kind, subresource, _ := strings.Cut(args[1], "/")
		resource, namespaced, err := w.ResourceNamed(kind)
		if err != nil {
			return err
		}
		if !namespaced {
			namespace = ""
		}
		objects, options := w.In(resource, namespace), metav1.PatchOptions{FieldManager: "somebody"}
		var subresources []string
		if subresource != "" {
			subresources = []string{subresource}
		}
		if _, err = objects.Patch(
			ctx, name, types.MergePatchType, []byte(args[3]), options, subresources...,
		); err != nil {
			return fmt.Errorf("cluster %s: patch %s %s/%s: %w", args[0], args[1], namespace, name, err)
		}
		return nil
	}, nil
}
