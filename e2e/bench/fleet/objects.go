package fleet

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"isthmus/e2e/bench/world"
)

// list is a resource of a cluster, as it was to begin with.
type list struct{ json, protobuf []byte }

// newMember returns a cluster with its Services, slices and Pods.
func newMember(cfg Config, number int) (*member, error) {
	c := &member{version: 1, byKey: map[string]int{}, watchers: map[chan<- event]<-chan struct{}{}, lists: map[string]*list{}}
	var services []corev1.Service
	var pods []corev1.Pod
	for s := range cfg.Services {
		name, _ := Service(s, false)
		services = append(services, service(name, nil))
		c.byKey[name] = len(c.slices) + cfg.Slices/2
		for range cfg.Slices {
			slice := newSlice(name, len(c.slices))
			for range cfg.Endpoints {
				pod := newPod(len(pods))
				slice.Endpoints = append(slice.Endpoints, newEndpoint(number, len(pods), pod.Name))
				pods = append(pods, pod)
			}
			c.slices = append(c.slices, slice)
		}
	}
	return c, c.fill(services, pods, nil)
}

// federate adds to the local cluster the links, and the Services that join the linked clusters'.
func (f *Fleet) federate(c *member, cfg Config) error {
	var secrets []corev1.Secret
	for i := 1; i <= cfg.Linked; i++ {
		link := world.Link(name(i), f.kubeconfig(i))
		link.TypeMeta, link.ResourceVersion = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, "1"
		secrets = append(secrets, *link)
	}
	var services []corev1.Service
	for s := range cfg.Services {
		own, _ := Service(s, false)
		services = append(services, service(own, nil))
		if cfg.Linked == 0 {
			continue
		}
		var members []string
		for i := 1; i <= cfg.Linked; i++ {
			members = append(members, own+"@"+name(i))
		}
		services = append(services, service(world.Federated(own), map[string]string{"multicluster.linkerd.io/remote-discovery": strings.Join(members, ",")}))
	}
	return c.fill(services, nil, secrets)
}

// fill encodes the lists; nil ones stay as they are.
func (c *member) fill(services []corev1.Service, pods []corev1.Pod, secrets []corev1.Secret) error {
	version := metav1.ListMeta{ResourceVersion: "1"}
	lists := map[string]runtime.Object{
		"services":       &corev1.ServiceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceList"}, ListMeta: version, Items: services},
		"secrets":        &corev1.SecretList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "SecretList"}, ListMeta: version, Items: secrets},
		"endpointslices": &discoveryv1.EndpointSliceList{TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSliceList"}, ListMeta: version, Items: c.slices},
	}
	if pods != nil || c.lists["pods"] == nil {
		lists["pods"] = &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: version, Items: pods}
	}
	for resource, o := range lists {
		l, err := encode(o)
		if err != nil {
			return fmt.Errorf("%s: %w", resource, err)
		}
		c.lists[resource] = l
	}
	return nil
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: world.Namespace, Name: name, ResourceVersion: "1"}
}

func service(name string, annotations map[string]string) corev1.Service {
	s := corev1.Service{ObjectMeta: meta(name), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}
	s.Annotations = annotations
	return s
}

func newSlice(service string, i int) discoveryv1.EndpointSlice {
	s := discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta:  meta(fmt.Sprintf("%s-%05d", service, i)),
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}},
	}
	s.Labels = map[string]string{discoveryv1.LabelServiceName: service}
	return s
}

func newEndpoint(cluster, i int, pod string) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses:  []string{fmt.Sprintf("10.%d.%d.%d", cluster<<2|i>>16, i>>8&0xff, i&0xff)},
		Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: world.Namespace, Name: pod},
	}
}

func newPod(i int) corev1.Pod {
	p := corev1.Pod{ObjectMeta: meta(fmt.Sprintf("web-5f79f964bc-%06d", i))}
	p.Labels = map[string]string{"linkerd.io/control-plane-ns": "linkerd", "pod-template-hash": "5f79f964bc"}
	p.Spec.Containers = []corev1.Container{{Name: "linkerd-proxy", Env: []corev1.EnvVar{
		{Name: "LINKERD2_PROXY_INBOUND_LISTEN_ADDR", Value: "0.0.0.0:4143"},
		{Name: "LINKERD2_PROXY_ADMIN_LISTEN_ADDR", Value: "0.0.0.0:4191"},
		{Name: "LINKERD2_PROXY_CONTROL_LISTEN_ADDR", Value: "0.0.0.0:4190"},
	}}}
	return p
}
