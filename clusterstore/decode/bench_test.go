package decode

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// meshedPod returns a Pod of realistic size. It has a container, Linkerd's proxy and its init
// container.
func meshedPod(i int) *corev1.Pod {
	yes, now := true, metav1.Time{Time: time.Unix(1_700_000_000, 0)}
	env := func(names ...string) (list []corev1.EnvVar) {
		for _, n := range names {
			list = append(list, corev1.EnvVar{Name: "LINKERD2_PROXY_" + n, Value: "0.0.0.0:4143"})
		}
		for k := range 40 {
			list = append(list, corev1.EnvVar{
				Name:  fmt.Sprint("LINKERD2_PROXY_SETTING_", k),
				Value: "some.value.of.linkerd.svc.cluster.local.:8086",
			})
		}
		return list
	}
	resources := corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("64Mi")},
	}
	probe := &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(4191)},
		},
		PeriodSeconds: 10,
	}
	mounts := []corev1.VolumeMount{
		{Name: "kube-api-access", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true},
	}
	containers := []corev1.Container{
		{Name: "web",
			Image:          "registry.example.com/shop/web:v1",
			Ports:          []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: "TCP"}},
			Env:            []corev1.EnvVar{{Name: "A", Value: "b"}},
			Resources:      resources,
			VolumeMounts:   mounts,
			ReadinessProbe: probe},
		{Name: "linkerd-proxy",
			Image: "cr.l5d.io/linkerd/proxy:edge",
			Ports: []corev1.ContainerPort{
				{Name: "linkerd-proxy", ContainerPort: 4143},
				{Name: "linkerd-admin", ContainerPort: 4191},
			},
			Env:            env("INBOUND_LISTEN_ADDR", "ADMIN_LISTEN_ADDR", "CONTROL_LISTEN_ADDR"),
			Resources:      resources,
			VolumeMounts:   mounts,
			ReadinessProbe: probe,
			LivenessProbe:  probe},
	}
	conditions := make([]corev1.PodCondition, 0, 5)
	for _, c := range []corev1.PodConditionType{
		"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled",
	} {
		conditions = append(conditions, corev1.PodCondition{Type: c, Status: "True", LastTransitionTime: now})
	}
	fields := func(manager string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager,
			Operation:  "Update",
			APIVersion: "v1",
			Time:       &now,
			FieldsType: "FieldsV1",
			FieldsV1:   metav1.NewFieldsV1(strings.Repeat(`{"f:metadata":{"f:labels":{"f:app":{}}}}`, 20))}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         "shop",
			Name:              fmt.Sprint("web-7c9d5f8b6d-", i),
			GenerateName:      "web-7c9d5f8b6d-",
			UID:               "9f0d7a1c-2f5e-4a57-8f6e-5c3c3b8c9d11",
			ResourceVersion:   fmt.Sprint(100 + i),
			CreationTimestamp: now,
			Labels: map[string]string{
				"app":                         "web",
				"pod-template-hash":           "7c9d5f8b6d",
				"linkerd.io/control-plane-ns": "linkerd",
				"linkerd.io/proxy-deployment": "web",
				"linkerd.io/workload-ns":      "shop",
			},
			Annotations: map[string]string{"linkerd.io/created-by": "linkerd/proxy-injector edge",
				"linkerd.io/inject":              "enabled",
				"linkerd.io/proxy-version":       "edge",
				"linkerd.io/trust-root-sha256":   "8dc603abd4e755c25c94da05abbf29b9b283a784733651020d72f97ca8ab98e4",
				"config.linkerd.io/opaque-ports": "25,587,3306"},
			OwnerReferences: []metav1.OwnerReference{
				{
					APIVersion:         "apps/v1",
					Kind:               "ReplicaSet",
					Name:               "web-7c9d5f8b6d",
					UID:                "x",
					Controller:         &yes,
					BlockOwnerDeletion: &yes,
				},
			},
			ManagedFields: []metav1.ManagedFieldsEntry{fields("kube-controller-manager"), fields("kubelet")},
		},
		Spec: corev1.PodSpec{NodeName: "node-1",
			ServiceAccountName:       "web",
			DeprecatedServiceAccount: "web",
			Containers:               containers,
			InitContainers: []corev1.Container{
				{
					Name:      "linkerd-init",
					Image:     "cr.l5d.io/linkerd/proxy-init:v2",
					Args:      []string{"--incoming-proxy-port", "4143", "--outgoing-proxy-port", "4140"},
					Resources: resources,
				},
			},
			Volumes: []corev1.Volume{
				{
					Name:         "linkerd-identity-end-entity",
					VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Memory"}},
				},
			},
			Tolerations: []corev1.Toleration{
				{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute"},
				{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute"},
			}},
		Status: corev1.PodStatus{Phase: "Running",
			PodIP:      "10.0.0.1",
			PodIPs:     []corev1.PodIP{{IP: "10.0.0.1"}},
			HostIP:     "192.168.0.1",
			HostIPs:    []corev1.HostIP{{IP: "192.168.0.1"}},
			StartTime:  &now,
			Conditions: conditions,
			ContainerStatuses: []corev1.ContainerStatus{
				{
					Name:         "web",
					Ready:        true,
					RestartCount: 0,
					Image:        "registry.example.com/shop/web:v1",
					ImageID:      "sha256:1234",
					ContainerID:  "containerd://1234",
					State:        corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
				},
			}},
	}
}

// BenchmarkPod decodes a Pod with its table and, like client-go, with the Pod's own Unmarshal.
func BenchmarkPod(b *testing.B) {
	data, err := meshedPod(1).Marshal()
	must(b, err)
	b.Run("table", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(data)))
		for range b.N {
			must(b, pods.use(func(d *decoder[corev1.Pod]) error { return d.decode(data) }))
		}
	})
	b.Run("client-go", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(data)))
		for range b.N {
			must(b, new(corev1.Pod).Unmarshal(data))
		}
	})
}

// repeated is an endless body.
type repeated struct {
	data []byte
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	n := copy(p, r.data[r.at:])
	r.at = (r.at + n) % len(r.data)
	return n, nil
}

// TestRoom checks that the memory that a decoder reuses is bounded after any sequence of
// objects.
func TestRoom(t *testing.T) {
	const decoders, most = 4, 600 << 10
	var objects [][]byte
	for i := range 30 {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name:            "p",
				Labels:          map[string]string{},
				OwnerReferences: make([]metav1.OwnerReference, 900),
			},
		}
		p.Spec.Containers, p.Spec.InitContainers = make([]corev1.Container, 300), make([]corev1.Container, 900)
		p.Spec.Containers[i].Ports = make([]corev1.ContainerPort, 15_000)
		for k := range p.Spec.InitContainers {
			p.Spec.InitContainers[k].Env = []corev1.EnvVar{{Name: "LINKERD2_PROXY_X_LISTEN_ADDR"}}
			p.Labels[fmt.Sprint(i, k)] = "x"
		}
		data, err := p.Marshal()
		must(t, err)
		objects = append(objects, data)
	}
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "s"},
		Endpoints:  make([]discoveryv1.Endpoint, 1000),
		Ports:      make([]discoveryv1.EndpointPort, 20_000),
	}
	for i := range s.Endpoints {
		s.Endpoints[i] = discoveryv1.Endpoint{
			Addresses: make([]string, 100),
			TargetRef: &corev1.ObjectReference{},
			Hints:     &discoveryv1.EndpointHints{ForZones: make([]discoveryv1.ForZone, 8)},
		}
	}
	slice, err := s.Marshal()
	must(t, err)

	before := heap()
	var kept []any
	for range decoders {
		p := pods.decoders.New().(*decoder[corev1.Pod])
		e := endpointSlices.decoders.New().(*decoder[discoveryv1.EndpointSlice])
		for _, data := range objects {
			must(t, p.decode(data))
			p.object = corev1.Pod{}
			p.room.clear()
		}
		must(t, e.decode(slice))
		e.object = discoveryv1.EndpointSlice{}
		e.room.clear()
		kept = append(kept, p, e)
	}
	if each := (heap() - before) / decoders; each > most {
		t.Errorf("two decoders hold %d bytes", each)
	} else {
		t.Logf("two decoders hold %d bytes", each)
	}
	runtime.KeepAlive(kept)
	runtime.KeepAlive(objects)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
