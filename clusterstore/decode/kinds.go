package decode

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// These constants list the JSON names of the fields to decode. Braces enclose the fields of a
// struct. A number after the name of a string field is the field's maximum length in bytes. The
// default maximum length is maxText. The number after the name of a list or map field is the
// maximum number of elements. If an object contains several lists at the same path, the last number
// after the name limits the total number of their elements. If the API's own validation limits a
// list or a string, this package applies the same limit.
const (
	usedMeta = `metadata {
		name 253  namespace 253  uid 253  resourceVersion 253  creationTimestamp  deletionTimestamp
		labels 100000  annotations 100000  managedFields  ownerReferences 1000 { kind name uid }
	}`
	usedContainer = `name  ports 20000 { name hostPort containerPort protocol hostIP }  env 1000 { name value 4194304 }`
	usedPod       = usedMeta + `
		spec {
			serviceAccountName 253  nodeName 253  hostNetwork
			containers 1000 { ` + usedContainer + ` }  initContainers 1000 { ` + usedContainer + ` }
		}
		status { phase hostIP podIP podIPs 1000 { ip }  hostIPs 1000 { ip } }`
	usedService = usedMeta + `
		spec {
			ports 20000 { name protocol port nodePort targetPort { type intVal strVal } appProtocol }
			selector 100000  type  clusterIP  clusterIPs 1000  ipFamilies 1000  ipFamilyPolicy  externalIPs 20000
			sessionAffinity  sessionAffinityConfig { clientIP { timeoutSeconds } }
			internalTrafficPolicy  trafficDistribution
		}
		status { loadBalancer { ingress 20000 { ip hostname } } }`
	usedReference = `targetRef { kind namespace name }`
	usedSlice     = usedMeta + `
		addressType
		endpoints 1000 {
			addresses 100 100000  conditions { ready terminating }  hostname  nodeName  zone
			hints { forZones 8 8000 { name }  forNodes 8 8000 { name } }
			` + usedReference + `
		}
		ports 20000 { name protocol port }`
	// The limits for Endpoints are derived from the maximum size of an object, because API servers
	// do not limit the lists themselves. The nodeName of a ready address is not decoded, because
	// the Pod determines the location of the address.
	usedEndpoints = usedMeta + `
		subsets 50000 {
			addresses 150000 { ip hostname ` + usedReference + ` }
			notReadyAddresses 150000 { ip hostname nodeName ` + usedReference + ` }
			ports 150000 { name protocol port }
		}`
	usedSecret = usedMeta + ` type  data 100000`
	usedNode   = usedMeta + ` spec { podCIDR podCIDRs 1000 }  status { addresses 1000 { address } }`
)

// The Sources for all API servers share the decoders for built-in kinds.
var (
	pods           = newKind[corev1.Pod](corev1.SchemeGroupVersion.WithKind("Pod"), usedPod)
	services       = newKind[corev1.Service](corev1.SchemeGroupVersion.WithKind("Service"), usedService)
	endpointSlices = newKind[discoveryv1.EndpointSlice](
		discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), usedSlice,
	)
	endpoints = newKind[coreEndpoints](corev1.SchemeGroupVersion.WithKind("Endpoints"), usedEndpoints)
	secrets   = newKind[corev1.Secret](corev1.SchemeGroupVersion.WithKind("Secret"), usedSecret)
	nodes     = newKind[corev1.Node](corev1.SchemeGroupVersion.WithKind("Node"), usedNode)
	partials  = newKind[metav1.PartialObjectMetadata](partialVersion.WithKind("PartialObjectMetadata"), usedMeta)
)

func init() { secrets.copies = true }

//lint:ignore SA1019 Endpoints are read with --enable-endpoint-slices=false
type coreEndpoints = corev1.Endpoints

// Unlike [metav1.SchemeGroupVersion], partialVersion contains the API group.
var partialVersion = schema.GroupVersion{Group: metav1.GroupName, Version: "v1"}

func usedAnnotation(key string) bool {
	return strings.Contains(key, "linkerd.io/") || strings.Contains(key, "isthmus.io/") ||
		key == metav1.InitialEventsAnnotationKey
}

// usedVariable reports whether an environment variable contains an address on which a proxy
// listens.
func usedVariable(name string) bool {
	return strings.HasPrefix(name, "LINKERD2_PROXY_") && strings.HasSuffix(name, "_LISTEN_ADDR")
}
