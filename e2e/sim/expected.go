package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/e2e/object"
	"isthmus/e2e/poll"
)

// What the gateway writes for exports, in a second, naive way: from what clusters export now alone.

// marked reports whether a Service has the mark of the gateway.
func marked(o *corev1.Service) bool {
	return markedAs("Service", o) && len(o.Spec.Selector) == 0
}

func markedAs(kind string, o metav1.Object) bool {
	return o.GetLabels()[writtenByKey] == object.LinkNamespace && o.GetAnnotations()[writtenAsKey] == kind+" "+o.GetNamespace()+"/"+o.GetName()
}

// valid returns what is wrong with what the gateway has written in the place of had (nil: there was none).
func valid(o, had *corev1.Service) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("the gateway has written the Service %s/%s %w", o.Namespace, o.Name, fmt.Errorf(format, args...))
	}
	switch {
	case !marked(o):
		return wrong("without its mark")
	case o.Namespace != exportNamespace:
		return wrong("in a namespace that is not allowed")
	case o.Spec.Type != corev1.ServiceTypeClusterIP || len(o.Spec.ExternalIPs)+len(o.Finalizers) > 0 || o.Labels[importedLabel] == "" && len(o.OwnerReferences) > 0:
		return wrong("with a type, IPs, owners or finalizers")
	case had != nil && (had.UID != o.UID || had.Labels[usersKey] != o.Labels[usersKey] || had.Spec.ClusterIP != o.Spec.ClusterIP):
		return wrong("anew, or without what a user has set")
	case len(o.Spec.Ports) > 100:
		return wrong("with %d ports", len(o.Spec.Ports))
	}
	names, numbers := map[string]bool{}, map[string]bool{}
	for _, p := range o.Spec.Ports {
		number := fmt.Sprint(p.Protocol, p.Port)
		if len(validation.IsDNS1123Label(p.Name))+len(validation.IsValidPortNum(int(p.Port))) > 0 || names[p.Name] || numbers[number] {
			return wrong("with the ports %v", o.Spec.Ports)
		}
		names[p.Name], numbers[number] = true, true
	}
	if err := validLabels(o.Labels); err != nil {
		return wrong("with %w", err)
	}
	for _, key := range []string{"argocd.argoproj.io/instance", "service.beta.kubernetes.io/aws-load-balancer-type"} {
		if o.Labels[key]+o.Annotations[key] != "" {
			return wrong("with %s", key)
		}
	}
	return nil
}

func validLabels(labels map[string]string) error {
	for key, value := range labels {
		if len(validation.IsQualifiedName(key))+len(validation.IsValidLabelValue(value)) > 0 || key == "kubernetes.io/x" {
			return fmt.Errorf("the label %s=%s", key, value)
		}
	}
	return nil
}

// expected is what is to be written at a name.
type expected struct {
	members []string // clusters; the local one is ""
	ports   []string // nil: any
	team    string
	retry   string
}

// exportsExpected returns what is to be written, by name. Services of ServiceImports are not among the Services.
func (w *world) exportsExpected() (map[string]*expected, map[string]*imported, error) {
	all, offers := map[string]*expected{}, map[string][]offered{}
	clusters, err := w.byAge()
	if err != nil {
		return nil, nil, err
	}
	for _, c := range clusters {
		list, err := c.api.Objects("services", exportNamespace)
		exports, err2 := read[mcs.ServiceExport](c, "serviceexports")
		if err := errors.Join(err, err2); err != nil {
			return nil, nil, err
		}
		joins := cmp.Or(c.annotation(exportsKey), "all")
		for _, o := range list {
			o := o.(*corev1.Service)
			if o.Spec.Type == corev1.ServiceTypeExternalName || o.Labels[writtenByKey]+o.Labels[mirroredKey] != "" || joins == "none" {
				continue
			}
			name := ""
			if c.number > 0 {
				name = c.name
			}
			if o.Labels[exportedKey] == "remote-discovery" && name != "" {
				all[o.Name+"-"+name] = all[o.Name+"-"+name].with(name, o)
			}
			if o.Labels[memberKey] == "member" && joins != "mirrors" && o.Spec.ClusterIP != corev1.ClusterIPNone {
				all[o.Name+"-federated"] = all[o.Name+"-federated"].with(name, o)
			}
			if e := exports[o.Name]; e != nil && joins != "mirrors" {
				offers[o.Name] = append(offers[o.Name], offered{name, o, e})
			}
		}
	}
	maps.DeleteFunc(all, func(name string, e *expected) bool {
		return len(validation.IsDNS1035Label(name)) > 0 || len(e.ports) == 0
	})
	imports := map[string]*imported{}
	for name, list := range offers {
		imports[name] = newImported(list)
	}
	return all, imports, nil
}

// byAge returns the clusters that are linked in the order in which they decide.
func (w *world) byAge() ([]*cluster, error) {
	secrets, err := w.clusters[0].api.Objects("secrets", object.LinkNamespace)
	if err != nil {
		return nil, err
	}
	age := func(c *cluster) int64 {
		for _, s := range secrets {
			if s := s.(*corev1.Secret); c.number > 0 && s.Name == c.link.accepted {
				return s.CreationTimestamp.Unix()
			}
		}
		return 0
	}
	list := slices.DeleteFunc(slices.Clone(w.clusters), func(c *cluster) bool { return !c.linked() })
	slices.SortStableFunc(list, func(a, b *cluster) int { return cmp.Compare(age(a), age(b)) }) // then by name
	return list, nil
}

// with adds a member; e is nil if there is none yet.
func (e *expected) with(cluster string, o *corev1.Service) *expected {
	if e == nil {
		e = &expected{team: o.Labels["team"], retry: o.Annotations[retryKey]}
		if len(validation.IsValidLabelValue(e.team)) > 0 {
			e.team = ""
		}
	}
	e.members = append(e.members, cluster)
	for _, p := range o.Spec.Ports {
		name, number := p.Name+" ", fmt.Sprintf(" %d", p.Port)
		taken := slices.ContainsFunc(e.ports, func(q string) bool { return strings.HasPrefix(q, name) || strings.HasSuffix(q, number) })
		if !taken && len(e.ports) < 100 && len(validation.IsDNS1123Label(p.Name))+len(validation.IsValidPortNum(int(p.Port))) == 0 {
			e.ports = append(e.ports, p.Name+number)
		}
	}
	return e
}

// exported waits until what is written for exports is what it should be, every other round, since that takes long: the gateway writes what
// changes often ever less often. It returns what the gateway must not have written.
func (s *simulation) exported(ctx context.Context, round int) (err error) {
	w := s.world
	if round%2 == 0 {
		err = poll.Until(ctx, exportsWithin, 50*time.Millisecond, func() error { return errors.Join(w.exportsWrong(), s.pending(ctx)) })
	}
	w.exports.mu.Lock()
	defer w.exports.mu.Unlock()
	return errors.Join(append(w.exports.errs, err)...)
}

// exportsWithin is longer than two of the longest pauses between writes, for which a ServiceImport and then its IPs wait, and what is held.
const exportsWithin = 150 * time.Second

// exportsWrong returns how what is written differs from what is expected.
func (w *world) exportsWrong() error {
	want, imports, err := w.exportsExpected()
	if err != nil {
		return err
	}
	list, err := w.exports.services()
	if err := errors.Join(err, w.importsWrong(imports, want)); err != nil {
		return err
	}
	w.exports.right = 0
	for _, o := range list {
		e, wanted := want[o.Name]
		delete(want, o.Name)
		switch {
		case !marked(o), wanted && e == nil, w.vague(membersOf(o)), e != nil && w.vague(e.members): // a user's; or not known
		case e == nil:
			return fmt.Errorf("the Service %s is there, and nothing is exported to it", o.Name)
		default:
			if err := e.differs(o); err != nil {
				return err
			}
			w.exports.right++
		}
	}
	for name, e := range want {
		if e != nil && !w.vague(e.members) {
			return fmt.Errorf("there is no Service %s of %q", name, e.members)
		}
	}
	return nil
}

// membersOf returns the clusters that a Service names.
func membersOf(o *corev1.Service) (list []string) {
	if c := o.Labels[object.RemoteDiscovery]; c != "" {
		return []string{c}
	}
	if o.Annotations[object.LocalDiscovery] != "" {
		list = append(list, "")
	}
	for item := range strings.SplitSeq(o.Annotations[object.RemoteDiscovery], ",") {
		if _, c, ok := strings.Cut(item, "@"); ok {
			list = append(list, c)
		}
	}
	return list
}

// vague reports whether one of the clusters is not known as it is.
func (w *world) vague(members []string) bool {
	away := w.away()
	return slices.ContainsFunc(members, func(name string) bool {
		c := w.named(name)
		return c != nil && (away[c] || !c.link.good())
	})
}

func (e *expected) differs(o *corev1.Service) error {
	var ports []string
	for _, p := range o.Spec.Ports {
		ports = append(ports, fmt.Sprintf("%s %d", p.Name, p.Port))
	}
	want := e.ports
	if want == nil {
		want = ports
	}
	got := fmt.Sprintf("of %q with ports %q, team %q, retry %q", membersOf(o), ports, o.Labels["team"], o.Annotations[retryKey])
	should := fmt.Sprintf("of %q with ports %q, team %q, retry %q", e.members, want, e.team, e.retry)
	if got != should {
		return fmt.Errorf("the Service %s is %s, should be %s", o.Name, got, should)
	}
	return nil
}
