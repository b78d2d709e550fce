package scenario

import (
	"encoding/json"
	"reflect"
	"testing"
)

// built returns what a shorthand builds, in JSON values.
func built(t *testing.T, build func(object, string, []string) error, what string, words ...string) any {
	t.Helper()
	o := object{"metadata": object{"name": "x", "namespace": "ns"}}
	if err := build(o, what, words); err != nil {
		t.Fatal(err)
	}
	return levelled(t, o)
}

func levelled(t *testing.T, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, string(text))
}

func parsed(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func same(t *testing.T, got any, want string) {
	t.Helper()
	if w := parsed(t, want); !reflect.DeepEqual(got, w) {
		t.Errorf("(- wanted, + got)\n%s", jsonDiff(w, got))
	}
}

const proxyJSON = `{"name": "linkerd-proxy", "image": "none", "env": [
	{"name": "LINKERD2_PROXY_INBOUND_LISTEN_ADDR", "value": "0.0.0.0:4143"},
	{"name": "LINKERD2_PROXY_ADMIN_LISTEN_ADDR", "value": "0.0.0.0:4191"},
	{"name": "LINKERD2_PROXY_CONTROL_LISTEN_ADDR", "value": "0.0.0.0:4190"}]}`

func TestPod(t *testing.T) {
	same(t, built(t, podObject, "10.0.0.1"), `{"apiVersion": "v1", "kind": "Pod",
		"metadata": {"name": "x", "namespace": "ns", "labels": {"linkerd.io/control-plane-ns": "linkerd"}},
		"spec": {"nodeName": "node-1", "terminationGracePeriodSeconds": 0, "containers": [{"name": "app", "image": "none"}, `+proxyJSON+`]},
		"status": {"phase": "Running", "hostIP": "192.168.0.1", "hostIPs": [{"ip": "192.168.0.1"}],
			"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}}`)
	same(t, built(t, podObject, "10.0.0.1,fd00::1", "unmeshed", "port=http=80@81", "port=90", "owner=Job/j", "owner=ReplicaSet/r",
		"sa=robot", "node=n2", "host-ip=10.9.9.9", "host-network", "phase=Failed", "label.a=b", "annotation.c=d"),
		`{"apiVersion": "v1", "kind": "Pod",
		"metadata": {"name": "x", "namespace": "ns", "labels": {"a": "b"}, "annotations": {"c": "d"}, "ownerReferences": [
			{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "00000000-0000-0000-0000-000000000001"},
			{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "00000000-0000-0000-0000-000000000002"}]},
		"spec": {"nodeName": "n2", "terminationGracePeriodSeconds": 0, "serviceAccountName": "robot", "hostNetwork": true,
			"containers": [{"name": "app", "image": "none", "ports": [
				{"name": "http", "containerPort": 80, "hostPort": 81, "protocol": "TCP"}, {"containerPort": 90, "protocol": "TCP"}]}]},
		"status": {"phase": "Failed", "hostIP": "10.9.9.9", "hostIPs": [{"ip": "10.9.9.9"}],
			"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}}`)
	native := built(t, podObject, "10.0.0.1", "native-sidecar", "no-env", "label.linkerd.io/control-plane-ns=other").(object)
	same(t, native["spec"].(object)["initContainers"], `[{"name": "linkerd-proxy", "image": "none", "restartPolicy": "Always"}]`)
	same(t, native["metadata"].(object)["labels"], `{"linkerd.io/control-plane-ns": "other"}`)
}

func TestService(t *testing.T) {
	same(t, built(t, svcObject, "http=80/8080,alt=81/alt,90", "selector.app=web"), `{"apiVersion": "v1", "kind": "Service",
		"metadata": {"name": "x", "namespace": "ns"}, "spec": {"selector": {"app": "web"}, "ports": [
			{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"},
			{"name": "alt", "port": 81, "targetPort": "alt", "protocol": "TCP"}, {"port": 90, "protocol": "TCP"}]}}`)
	for _, test := range []struct {
		ports string
		words []string
		want  string
	}{
		{"-", []string{"external-name=example.org"}, `{"type": "ExternalName", "externalName": "example.org"}`},
		{"-", []string{"headless"}, `{"clusterIP": "None", "clusterIPs": ["None"]}`},
		{"-", []string{"cluster-ip=10.0.0.9", "cluster-ip=fd00:10::9"}, `{"clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9", "fd00:10::9"]}`},
		{"-", []string{"internal-traffic=Local", "family=IPv6"}, `{"internalTrafficPolicy": "Local", "ipFamilies": ["IPv6"], "ipFamilyPolicy": "SingleStack"}`},
		{"-", []string{"family=IPv4", "family=IPv6"}, `{"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"}`},
	} {
		same(t, built(t, svcObject, test.ports, test.words...).(object)["spec"], test.want)
	}
}

func TestExternalWorkload(t *testing.T) {
	same(t, built(t, ewObject, "10.0.0.1,fd00::1", "port=http=80", "port=90", "owner=WorkloadGroup/g", "unready"),
		`{"apiVersion": "workload.linkerd.io/v1beta1", "kind": "ExternalWorkload",
		"metadata": {"name": "x", "namespace": "ns", "ownerReferences": [
			{"apiVersion": "example.com/v1", "kind": "WorkloadGroup", "name": "g", "uid": "00000000-0000-0000-0000-000000000001"}]},
		"spec": {"meshTLS": {"identity": "spiffe://root/x", "serverName": "x.vm.example"},
			"workloadIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
			"ports": [{"name": "http", "port": 80, "protocol": "TCP"}, {"port": 90, "protocol": "TCP"}]},
		"status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}`)
}

func TestSliceParts(t *testing.T) {
	ports, err := slicePorts("http=80,90,db=")
	if err != nil {
		t.Fatal(err)
	}
	same(t, levelled(t, ports), `[{"name": "http", "port": 80, "protocol": "TCP"}, {"name": "", "port": 90, "protocol": "TCP"},
		{"name": "db", "protocol": "TCP"}]`)
	for _, test := range []struct{ word, family, want string }{
		{"10.0.0.1", "IPv4", `[{"addresses": ["10.0.0.1"], "conditions": {"ready": true, "serving": true, "terminating": false}}]`},
		{"10.0.0.[1-2],nil", "IPv4", `[{"addresses": ["10.0.0.1"], "conditions": {}}, {"addresses": ["10.0.0.2"], "conditions": {}}]`},
		{"fd00::1,unready,ew=vm", "IPv6", `[{"addresses": ["fd00::1"], "conditions": {"ready": false, "serving": false, "terminating": false},
			"targetRef": {"kind": "ExternalWorkload", "name": "vm", "namespace": "ns"}}]`},
		{"10.0.0.1,pod=p,zone=z,hint=a+b,hostname=h,node=n", "IPv4", `[{"addresses": ["10.0.0.1"],
			"conditions": {"ready": true, "serving": true, "terminating": false},
			"targetRef": {"kind": "Pod", "name": "p", "namespace": "ns"}, "zone": "z", "hostname": "h", "nodeName": "n",
			"hints": {"forZones": [{"name": "a"}, {"name": "b"}]}}]`},
	} {
		got, family, err := sliceEndpoints(test.word, "ns")
		if err != nil || family != test.family {
			t.Errorf("%s: %s, %v", test.word, family, err)
		}
		same(t, levelled(t, got), test.want)
	}
}

func TestLevelSlice(t *testing.T) {
	slice := parsed(t, `{"addressType": "IPv4", "ports": null,
		"metadata": {"name": "x", "uid": "1", "labels": {"b": "c"}, "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "2"}]},
		"endpoints": [{"addresses": ["10.0.0.2"], "targetRef": {"kind": "Pod", "name": "p", "uid": "3"}}, {"addresses": ["10.0.0.1"]}]}`)
	same(t, sorted(levelSlice(slice.(object))), `{"addressType": "IPv4", "ports": [], "labels": {"b": "c"}, "owner": "v1/Service/web",
		"endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"], "targetRef": {"kind": "Pod", "name": "p"}}]}`)
}

func TestLinkSecret(t *testing.T) {
	l, err := readLink("east", "target", []string{"trust-domain=east.trust", "missing=label", "missing=cluster-domain"})
	if err != nil {
		t.Fatal(err)
	}
	same(t, levelled(t, l.object([]byte("k"))), `{"type": "mirror.linkerd.io/remote-kubeconfig",
		"metadata": {"name": "cluster-credentials-target", "namespace": "linkerd",
			"annotations": {"multicluster.linkerd.io/trust-domain": "east.trust"}}, "data": {"kubeconfig": "aw=="}}`)
	l, err = readLink("east", "east", []string{"missing=kubeconfig", "type=Opaque", "secret=other"})
	if err != nil {
		t.Fatal(err)
	}
	same(t, levelled(t, l.object(nil)), `{"type": "Opaque",
		"metadata": {"name": "other", "namespace": "linkerd", "labels": {"multicluster.linkerd.io/cluster-name": "east"},
			"annotations": {"multicluster.linkerd.io/trust-domain": "cluster.local", "multicluster.linkerd.io/cluster-domain": "cluster.local"}}}`)
}
