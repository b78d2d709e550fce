package cluster

import (
	"context"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/clusterstore/decode"
	"isthmus/federation"
)

// withAddresses makes a cluster the local one.
func withAddresses(c *Config) {
	c.Name, c.local = federation.Local, localConfig()
}

// localConfig ignores all changes.
func localConfig() *LocalConfig {
	return &LocalConfig{
		ServiceChanged: func(federation.ServiceID) {}, NodeChanged: func(string, string, bool) {},
		ProfileChanged: func(Topic, time.Time) {},
	}
}

func phase(p corev1.PodPhase) func(*corev1.Pod) { return func(o *corev1.Pod) { o.Status.Phase = p } }

// at gives a Pod IPs, and makes it run.
func at(ips ...string) func(*corev1.Pod) {
	return func(o *corev1.Pod) {
		o.Status.Phase, o.Status.PodIP, o.Status.PodIPs = corev1.PodRunning, ips[0], nil
		for _, ip := range ips {
			o.Status.PodIPs = append(o.Status.PodIPs, corev1.PodIP{IP: ip})
		}
	}
}

// onHost gives the Pod's node IPs.
func onHost(ips ...string) func(*corev1.Pod) {
	return func(o *corev1.Pod) {
		o.Status.HostIP, o.Status.HostIPs = ips[0], nil
		for _, ip := range ips {
			o.Status.HostIPs = append(o.Status.HostIPs, corev1.HostIP{IP: ip})
		}
	}
}

func hostNetwork(o *corev1.Pod) { o.Spec.HostNetwork = true }

func terminating(o *corev1.Pod) { o.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

// clusterIP gives a Service its addresses.
func clusterIP(o *corev1.Service, ips ...string) *corev1.Service {
	o.Spec.ClusterIP, o.Spec.ClusterIPs = ips[0], ips
	return o
}

func serviceAnnotation(o *corev1.Service, key, value string) *corev1.Service {
	o.Annotations = with(o.Annotations, key, value)
	return o
}

// workloadAt gives an ExternalWorkload its addresses.
func workloadAt(o *decode.ExternalWorkload, ips ...string) *decode.ExternalWorkload {
	for _, ip := range ips {
		o.Spec.WorkloadIPs = append(o.Spec.WorkloadIPs, decode.WorkloadIP{IP: ip})
	}
	return o
}

// describeFound renders the owner of an address as text.
func describeFound(f Found) string {
	switch {
	case f.Claimed != "":
		return "claimed by " + f.Claimed
	case f.Service != nil:
		return "Service " + f.ID.String()
	}
	return describe(f.Endpoint)
}

func (w *world) at(addr string) string {
	return describeFound(w.LookupAddress(netip.MustParseAddrPort(addr)))
}

// markedTopics returns the reported topics since the last call. It looks for conflicts as the worker does.
func (w *world) markedTopics() map[Topic]time.Time {
	topics := make(map[Topic]time.Time)
	w.cfg.local.ProfileChanged = func(t Topic, at time.Time) { topics[t] = at }
	w.state.local.dirty.Drain(context.Background(), w.topicChanged)
	return topics
}
