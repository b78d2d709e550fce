// Package clustertest contains helpers for the tests of clusterstore and its subpackages. The
// package generates random objects, lists the fields that Isthmus uses, and compares metrics. The
// package does not import the packages under test.
package clustertest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Maker generates objects in which a random selection of fields is set to random values.
type Maker struct{ *rand.Rand }

var madeTexts = []string{
	"", "web", "10.0.0.1", "fd00::1", "Pod", "a/b", "ключ", "\xff\xfe", "Running", "TCP", "None", "Local",
	"ExternalName", "FQDN",
	"linkerd-proxy", "LINKERD2_PROXY_INBOUND_LISTEN_ADDR", "LINKERD2_PROXY_ADMIN_LISTEN_ADDR", "LINKERD2_PROXY_X",
	"0.0.0.0:4143",
	"config.linkerd.io/opaque-ports", "mirror.linkerd.io/cluster-name", "isthmus.io/x", "kubernetes.io/service-name",
	"Update", "kubeconfig",
	strings.Repeat("long", 50),
}

func (m Maker) text() string { return madeTexts[m.IntN(len(madeTexts))] }

// The fill method fills a value with random data. The more deeply a field is nested, the more
// likely it is to stay unset.
func (m Maker) fill(v reflect.Value, depth int) {
	if m.IntN(4) == 0 && depth > 0 || depth > 9 {
		return
	}
	switch v.Addr().Interface().(type) {
	case *metav1.Time:
		v.Set(reflect.ValueOf(metav1.Time{Time: time.Unix(int64(m.IntN(1<<31)), 0)}))
		return
	case *resource.Quantity:
		return
	case *metav1.FieldsV1:
		v.Set(reflect.ValueOf(*metav1.NewFieldsV1(`{"f:spec":{"f:a":{}}}`)))
		return
	case *intstr.IntOrString:
		v.Set(reflect.ValueOf(intstr.Parse(m.text())))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(m.text())
	case reflect.Bool:
		v.SetBool(m.IntN(2) == 0)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(m.IntN(70_000) - 2))
	case reflect.Uint8:
		v.SetUint(uint64(m.IntN(256)))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		m.fill(v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), m.IntN(4), 4))
		for i := range v.Len() {
			m.fill(v.Index(i), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range m.IntN(4) {
			key := reflect.New(v.Type().Key()).Elem()
			value := reflect.New(v.Type().Elem()).Elem()
			key.SetString(m.text())
			m.fill(value, depth+1)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				m.fill(f, depth+1)
			}
		}
	}
}

// Make sets a random selection of an object's fields to random values. Make always sets a valid
// name and namespace, because package decode rejects a response with invalid names.
func (m Maker) Make(o metav1.Object) {
	m.fill(reflect.ValueOf(o).Elem(), 0)
	o.SetName(fmt.Sprint("n", m.IntN(1000)))
	o.SetNamespace(strings.ReplaceAll(o.GetNamespace(), "/", "-"))
	if m.IntN(4) > 0 {
		o.SetNamespace("ns")
	}
}

// UsedMeta lists the paths of the metadata fields that Isthmus uses in objects of all kinds.
const UsedMeta = "ObjectMeta.Name ObjectMeta.Namespace ObjectMeta.UID ObjectMeta.ResourceVersion " +
	"ObjectMeta.CreationTimestamp ObjectMeta.DeletionTimestamp " +
	"ObjectMeta.Labels ObjectMeta.Annotations ObjectMeta.OwnerReferences.Kind ObjectMeta.OwnerReferences.Name " +
	"ObjectMeta.OwnerReferences.UID ObjectMeta.ManagedFields "

const usedContainer = "Spec.%[1]s.Name Spec.%[1]s.Ports.Name Spec.%[1]s.Ports.HostPort Spec.%[1]s.Ports.HostIP " +
	"Spec.%[1]s.Ports.ContainerPort Spec.%[1]s.Ports.Protocol " +
	"Spec.%[1]s.Env.Name Spec.%[1]s.Env.Value "

// Each of the following variables lists the paths of the fields that Isthmus uses in objects of one
// kind.
var (
	UsedPod = UsedMeta + fmt.Sprintf(usedContainer, "Containers") + fmt.Sprintf(usedContainer, "InitContainers") +
		"Spec.ServiceAccountName Spec.NodeName Spec.HostNetwork Status.Phase Status.HostIP Status.PodIP " +
		"Status.PodIPs.IP Status.HostIPs.IP"
	UsedService = UsedMeta + "Spec.Ports.Name Spec.Ports.Protocol Spec.Ports.Port Spec.Ports.NodePort " +
		"Spec.Ports.TargetPort Spec.Ports.AppProtocol Spec.Selector Spec.IPFamilies Spec.IPFamilyPolicy " +
		"Spec.ClusterIP Spec.ClusterIPs Spec.Type Spec.ExternalIPs " +
		"Spec.SessionAffinity Spec.SessionAffinityConfig.ClientIP.TimeoutSeconds Spec.InternalTrafficPolicy " +
		"Spec.TrafficDistribution Status.LoadBalancer.Ingress.IP Status.LoadBalancer.Ingress.Hostname"
	UsedSlice = UsedMeta +
		"AddressType Endpoints.Addresses Endpoints.Conditions.Ready Endpoints.Conditions.Terminating " +
		"Endpoints.Hostname " +
		"Endpoints.TargetRef.Kind Endpoints.TargetRef.Namespace Endpoints.TargetRef.Name " +
		"Endpoints.NodeName Endpoints.Zone Endpoints.Hints.ForZones.Name Endpoints.Hints.ForNodes.Name " +
		"Ports.Name Ports.Protocol Ports.Port"
	UsedEndpoints = UsedMeta + usedCore("Addresses") + usedCore("NotReadyAddresses") +
		"Subsets.NotReadyAddresses.NodeName Subsets.Ports.Name Subsets.Ports.Protocol Subsets.Ports.Port"
	UsedNode   = UsedMeta + "Spec.PodCIDR Spec.PodCIDRs Status.Addresses.Address"
	UsedSecret = UsedMeta + "Type Data"
)

func usedCore(list string) string {
	return strings.ReplaceAll(
		"S.IP S.Hostname S.TargetRef.Kind S.TargetRef.Namespace S.TargetRef.Name ", "S.", "Subsets."+list+".",
	)
}

// Prune sets all fields of v to their zero values, except the fields at the given paths.
func Prune(v reflect.Value, used []string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			Prune(v.Elem(), used)
		}
		return
	case reflect.Slice:
		for i := range v.Len() {
			Prune(v.Index(i), used)
		}
		return
	}
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if slices.Contains(used, name) {
			continue
		}
		var below []string
		for _, path := range used {
			if rest, ok := strings.CutPrefix(path, name+"."); ok {
				below = append(below, rest)
			}
		}
		if len(below) == 0 {
			v.Field(i).SetZero()
		} else {
			Prune(v.Field(i), below)
		}
	}
}

// Zero sets the field at the given path to its zero value. If the path leads through a slice, Zero
// sets the field in every element of the slice.
func Zero(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			Zero(v.Elem(), path)
		}
		return
	case reflect.Slice:
		for i := range v.Len() {
			Zero(v.Index(i), path)
		}
		return
	}
	name, rest, below := strings.Cut(path, ".")
	if f := v.FieldByName(name); below {
		Zero(f, rest)
	} else {
		f.SetZero()
	}
}

// IsSet reports whether the field at the given path is set in a value. If the path leads through
// lists, the field must be set in at least one element.
func IsSet(v reflect.Value, path string) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return !v.IsNil() && IsSet(v.Elem(), path)
	case reflect.Slice:
		for i := range v.Len() {
			if IsSet(v.Index(i), path) {
				return true
			}
		}
		return false
	}
	name, rest, below := strings.Cut(path, ".")
	f := v.FieldByName(name)
	if !below {
		return !f.IsZero() && (f.Kind() != reflect.Slice && f.Kind() != reflect.Map || f.Len() > 0)
	}
	return IsSet(f, rest)
}
