package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"isthmus/e2e/harness/kube"
)

// Clusters export Services by Linkerd's labels and by ServiceExports (imports.go), from a namespace
// that contains nothing else. Isthmus writes the objects for the exports (expected.go). Users have
// Services of the same names, edit what Isthmus writes, and remove its mark. Sometimes a user
// writes just before Isthmus. No client subscribes to these Services.
const (
	exportNamespace = "shop"
	exportNames     = 6 // new names per round, since Isthmus slows down writes of objects that change often

	exportsKey   = "isthmus.io/exports"
	writtenByKey = "isthmus.io/written-by"
	writtenAsKey = "isthmus.io/written-as"
	mirroredKey  = "mirror.linkerd.io/mirrored-service"
	exportedKey  = "mirror.linkerd.io/exported"
	memberKey    = "mirror.linkerd.io/federated"
	retryKey     = "retry.linkerd.io/http"
	usersKey     = "example.com/mine"
)

// exportArgs are the flags of Isthmus for exports. Each round waits for -unlinked-after.
var exportArgs = []string{"-exports=on", "-unlinked-after=10s"}

// exportSteps change what clusters export, and what users have at the same names.
var exportSteps = []step{
	{"export", 12, export},
	{"unexport", 5, func(w *world, c *cluster, _ string) string { return unexport(w, c, exportName(w)) }},
	{"unexport all", 1, unexportAll},
	{"hostile export", 5, hostileExport},
	{"user", 12, user},
	{"service export", 5, serviceExport},
	{"user's import", 2, func(w *world, _ *cluster, _ string) string {
		name, what := exportName(w), pick(w, []string{"make", "delete", "delete"})
		w.err = errors.Join(w.err, usersImport(&w.exports, what, name))
		return what + " " + name
	}},
	{"exports of a link", 2, func(w *world, c *cluster, _ string) string {
		return annotate(w, c, exportsKey, []string{"", "all", "all", "mirrors", "none"})
	}},
}

// fillExports creates what Isthmus needs for its writes.
func fillExports(w *world) {
	for _, name := range []string{exportNamespace, "kube-system", kube.LinkNamespace} {
		tenantPut(w, w.clusters[0], kube.Namespace(name))
	}
	w.exports.local = w.clusters[0]
	w.clusters[0].api.TakeWrites(w.exports.before, w.exports.after)
}

// exportName returns a random name of this round, or sometimes of the previous one.
func exportName(w *world) string {
	round := w.exports.round
	if w.chance(6) {
		round = max(0, round-1)
	}
	return fmt.Sprintf("e%d-%d", round, w.rng.IntN(exportNames))
}

// targets returns the names of the objects that Isthmus writes for an exported name.
func targets(w *world, name string) (list []string) {
	for _, c := range w.clusters[1:] {
		list = append(list, name+"-"+c.name)
	}
	return append(list, name+"-federated", name+derivedSuffix)
}

func exportPort(name string, number int32) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Port: number, Protocol: corev1.ProtocolTCP}
}

func anyExport(w *world) *corev1.Service {
	o := kube.Service(exportNamespace, exportName(w))
	o.Labels = map[string]string{"team": pick(w, []string{"a", "b"})}
	o.Annotations = map[string]string{retryKey: pick(w, []string{"5xx", "gateway-error"})}
	o.Spec.Ports = pick(w, [][]corev1.ServicePort{
		{
			exportPort("http", 80),
		}, {exportPort("http", 80)}, {exportPort("http", 8080)}, {exportPort("metrics", 80)},
		{exportPort("http", 80), exportPort("admin", 9090)},
	})
	if w.chance(6) {
		headless(o)
	}
	as := w.rng.IntN(5)
	if as != 0 {
		o.Labels[memberKey] = "member"
	}
	if as < 3 {
		o.Labels[exportedKey] = "remote-discovery"
	}
	return o
}

func export(w *world, c *cluster, _ string) string {
	o := anyExport(w)
	tenantPut(w, c, o)
	if w.chance(2) {
		serviceExport(w, c, o.Name)
	}
	return fmt.Sprintf("%s %v with %d ports", o.Name, o.Labels, len(o.Spec.Ports))
}

func unexport(w *world, c *cluster, name string) string {
	_ = c.api.Delete(kube.Service(exportNamespace, name)) // it may not exist
	return name
}

func unexportAll(w *world, c *cluster, _ string) string {
	for round := range w.exports.round + 1 {
		for i := range exportNames {
			unexport(w, c, fmt.Sprintf("e%d-%d", round, i))
		}
	}
	return "all"
}

// hostileExport exports something that Isthmus must not write, or only in part.
func hostileExport(w *world, c *cluster, _ string) string {
	if c.number == 0 {
		return ""
	}
	o := anyExport(w)
	what := w.rng.IntN(9)
	switch what {
	case 0:
		o.Namespace = pick(w, []string{"kube-system", kube.LinkNamespace, "missing"})
	case 1:
		o.Name += strings.Repeat("x", 63-len(o.Name))
	case 2:
		o.Name = "0" + o.Name
	case 3:
		o.Name = pick(w, targets(w, o.Name))
	case 4:
		o.Labels[writtenByKey], o.Annotations[writtenAsKey] = kube.LinkNamespace, "Service "+exportNamespace+"/"+o.Name
	case 5:
		o.Labels[mirroredKey] = "true"
	case 6:
		o.Spec.Type, o.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
	case 7:
		o.Spec.Ports = append(
			[]corev1.ServicePort{exportPort("http", 0), exportPort("HTTP_", 81), exportPort("http", 70_000)},
			o.Spec.Ports...)
		for i := range 200 {
			o.Spec.Ports = append(o.Spec.Ports, exportPort(fmt.Sprint("p", i%150), int32(1000+i%170)))
		}
	case 8:
		o.Labels["team"], o.Labels["not/valid/"], o.Labels[strings.Repeat("x", 300)] = strings.Repeat(
			"a",
			100,
		), "x", "x"
		o.Labels["argocd.argoproj.io/instance"] = "x"
		o.Annotations["service.beta.kubernetes.io/aws-load-balancer-type"] = "nlb"
		o.Finalizers, o.OwnerReferences = []string{
			"example.com/never",
		}, []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u"},
		}
	}
	tenantPut(w, c, o)
	return fmt.Sprintf("%d: %s/%s", what, o.Namespace, o.Name)
}

// user does something to an object that Isthmus writes.
func user(w *world, _ *cluster, _ string) string {
	name, what := pick(w, targets(w, exportName(w))), pick(w, userDeeds)
	w.err = errors.Join(w.err, w.exports.do(what, name, w.chance(2)))
	return what + " " + name
}

var userDeeds = []string{"make", "make", "edit", "edit", "take", "delete", "replace"}

// exporting holds what users and Isthmus do in the namespace of exports.
type exporting struct {
	local *cluster
	round int

	mu    sync.Mutex
	quick *rand.Rand // decides whether a user writes just before Isthmus; nil means never
	errs  []error    // what Isthmus must not have written

	right int // Services that were correct at the last check
}

// do performs what a user does, if the object's state allows it.
func (x *exporting) do(what, name string, selector bool) error {
	all, err := x.services()
	if err != nil {
		return err
	}
	have := all[name]
	own := kube.Service(exportNamespace, name)
	own.Labels = map[string]string{usersKey: "yes"}
	if selector {
		own.Spec.Selector = map[string]string{"app": name}
	}
	switch {
	case what == "make" && have != nil, what != "make" && have == nil:
		return nil
	case what == "edit":
		own = have
		own.Spec.Ports = []corev1.ServicePort{exportPort("other", 1)}
		metav1.SetMetaDataLabel(&own.ObjectMeta, usersKey, "yes")
	case what == "take":
		own = have
		delete(own.Labels, writtenByKey)
		delete(own.Labels, mirroredKey)
	case what == "delete", what == "replace":
		_ = x.local.api.Delete(have) // Isthmus may have deleted it already
		if what == "delete" {
			return nil
		}
	}
	return x.local.api.Put(own)
}

// services returns the Services in the namespace of exports, by name.
func (x *exporting) services() (map[string]*corev1.Service, error) {
	list, err := x.local.api.Objects("services", exportNamespace)
	all := make(map[string]*corev1.Service)
	for _, o := range list {
		s := o.(*corev1.Service)
		all[s.Name] = s
	}
	return all, err
}

// race makes users write just before Isthmus now and then. If quick is nil, it ends that.
func (x *exporting) race(quick *rand.Rand) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.quick = quick
}

// before is called before each write of Isthmus.
func (x *exporting) before(resource, namespace, name string) {
	if namespace != exportNamespace || resource != "services" && resource != "serviceimports" {
		return
	}
	x.mu.Lock()
	what := ""
	if x.quick != nil && x.quick.IntN(10) == 0 {
		what = userDeeds[x.quick.IntN(len(userDeeds))]
	}
	x.mu.Unlock()
	switch {
	case what == "":
	case resource == "services":
		x.note(x.do(what, name, false))
	default:
		x.note(usersImport(x, what, name))
	}
}

func (x *exporting) note(err error) {
	if err != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.errs = append(x.errs, err)
	}
}

// after is called after each write of Isthmus.
func (x *exporting) after(before, after runtime.Object) {
	if o, ok := before.(*corev1.Service); ok && !marked(o) {
		x.note(
			fmt.Errorf("the Service %s/%s, which has no mark, was changed or deleted", o.Namespace, o.Name),
		)
	}
	if o, ok := after.(*corev1.Service); ok {
		had, _ := before.(*corev1.Service)
		x.note(lawfulService(o, had))
	}
	was, _ := before.(*unstructured.Unstructured)
	if now, _ := after.(*unstructured.Unstructured); was != nil || now != nil {
		x.note(lawful(was, now))
	}
}
