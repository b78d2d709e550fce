package externalworkload

import (
	"encoding/json"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus/clusterstore/decode"
)

// FuzzWorkload: whatever an ExternalWorkload contains, API servers accept the slices
// made of it, and a second sync does not change them.
func FuzzWorkload(f *testing.F) {
	for _, text := range []string{
		`{"spec":{"ports":[{"name":"http","port":8080}],"workloadIPs":[{"ip":"10.0.0.1"},{"ip":"2001:db8::1"}]},` +
			`"status":{"conditions":[{"type":"Ready","status":"True"}]}}`,
		`{"spec":{"ports":[{"port":-1,"protocol":"tcp"}],"workloadIPs":[{"ip":"::ffff:127.0.0.1"},` +
			`{"ip":"fe80::1%eth0"},{"ip":"0.0.0.0"},{"ip":"1.2.3"}]}}`,
		`{"spec":{"ports":"none"},"status":[]}`,
		`{"metadata":{"labels":{"topology.kubernetes.io/zone":"a"}},"spec":{"workloadIPs":[{"ip":"010.1.1.1"},` +
			`{"ip":"10.0.0.1"},{"ip":"10.0.0.1"}]}}`,
	} {
		f.Add("vm-1", text)
		f.Add("vm.1", text)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		var x decode.ExternalWorkload
		if json.Unmarshal([]byte(text), &x) != nil {
			return // no object at all
		}
		x.Namespace, x.Name = "ns", name
		w := &world{t: t}
		svc := headless(families(aService("web", "http=80/http", "admin=81/8080", "dns=53/53/UDP")))
		w.sync(svc, &x, aWorkload("other", "10.0.0.9,2001:db8::9", "http=8080"))
		for _, s := range w.slices {
			checkValid(t, s)
		}
	})
}

// checkValid makes the checks of API servers that depend on workloads.
func checkValid(t *testing.T, s *discoveryv1.EndpointSlice) {
	names := make(map[string]bool)
	for _, p := range s.Ports {
		if *p.Port < 1 || *p.Port > 65535 || names[*p.Name] ||
			(*p.Protocol != corev1.ProtocolTCP && *p.Protocol != corev1.ProtocolUDP) {
			t.Errorf("port %s=%d/%s", *p.Name, *p.Port, *p.Protocol)
		}
		names[*p.Name] = true
	}
	for _, e := range s.Endpoints {
		if len(e.Addresses) == 0 || len(e.Addresses) > 100 {
			t.Errorf("%d addresses", len(e.Addresses))
		}
		seen := make(map[string]bool)
		for _, text := range e.Addresses {
			ip, err := netip.ParseAddr(text)
			if err != nil || ip.String() != text || seen[text] ||
				ip.Is4() != (s.AddressType == discoveryv1.AddressTypeIPv4) || ip.Is4In6() || ip.Zone() != "" {
				t.Errorf("%s address %q: %v", s.AddressType, text, err)
			}
			seen[text] = true
			if ip.IsUnspecified() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() {
				t.Errorf("address %s is not the workload's", text)
			}
		}
		if e.Hostname != nil && len(validation.IsDNS1123Label(*e.Hostname)) > 0 {
			t.Errorf("hostname %q", *e.Hostname)
		}
	}
}
