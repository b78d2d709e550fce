package cluster

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"isthmus/clusterstore/decode"
	"isthmus/federation"
)

// FuzzPolicy reads a Server and an ExternalWorkload from whatever JSON a server
// may send, and checks that other endpoints are as they would be without them, opaque
// ports aside, and that nothing of the two is left in the end.
func FuzzPolicy(f *testing.F) {
	f.Add(true, `{"metadata":{"namespace":"ns","name":"s"},"spec":{"port":"http","proxyProtocol":"opaque","podSelector":{"matchLabels":{"app":"x"}}}}`,
		`{"metadata":{"namespace":"ns","name":"v"},"spec":{"meshTLS":{"identity":"i","serverName":"n"},"ports":[{"name":"http","port":8080}]}}`, "app", "x")
	f.Add(false, `{"metadata":{"namespace":"ns","name":"s"},"spec":{"port":8080,"proxyProtocol":"opaque","externalWorkloadSelector":{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}}}`,
		`{"metadata":{"namespace":"ns","name":"v","labels":{"a":"b"}},"spec":{"ports":[{"name":"linkerd-proxy","port":-1},{"port":1.5}]}}`, "a", "\xff")
	f.Add(false, `{"metadata":{"namespace":"ns"},"spec":{"port":{},"podSelector":7}}`, `{"metadata":{"name":"v"},"spec":null,"status":"?"}`, "\x00", "\x00")
	f.Add(true, `{"spec":{"port":99999,"proxyProtocol":"opaque","podSelector":{}}}`, `{"metadata":{"namespace":"ns","name":"v","annotations":{"config.linkerd.io/opaque-ports":",,1-0,x"}},"spec":{"meshTLS":{"identity":"\ud800"}}}`, "", "")
	f.Fuzz(func(t *testing.T, before bool, server, workload, key, value string) {
		var s decode.Server
		var v decode.ExternalWorkload
		if json.Unmarshal([]byte(server), &s) != nil || json.Unmarshal([]byte(workload), &v) != nil {
			return // metadata that no API server lets pass
		}
		w := newWorld(t, nil)
		if before {
			w.put(&s, &v)
		}
		p := aPod("p", podLabel(key, value), namedPort("http", 8080, 0))
		w.put(aService("web", "http=80"), p, aPod("q"), aSlice("s", "web", "http=8080", "10.0.0.1 pod=p", "10.0.0.2 pod=q", "10.0.0.3 ew=v", "10.0.0.4"))
		if !before {
			w.put(&s, &v)
		}
		share := w.read("web", 80)
		checkShare(t, share)
		others := 0
		for _, e := range share.Slices[0].Endpoints {
			if e.Kind != federation.Workload {
				others++
			}
		}
		if readable := labels.Set(p.Labels).String(); others != 3 && readable == string([]rune(readable)) {
			t.Errorf("others lost endpoints: %s", addrs(share))
		}
		w.del(&s, &v)
		for _, e := range w.read("web", 80).Slices[0].Endpoints {
			if e.Opaque || e.Kind == federation.Workload {
				t.Errorf("after all are gone: %s", describe(e))
			}
		}
		w.del(p, aPod("q"), aService("web"), aSlice("s", "web", "http=8080"))
		if n := w.state.size(); n != 0 {
			t.Errorf("%d objects left behind", n)
		}
	})
}
