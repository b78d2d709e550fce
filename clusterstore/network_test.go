package clusterstore

import (
	"fmt"
	"testing"

	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/gateway"
)

// FuzzGatewayAddresses: what is accepted can be connected to.
func FuzzGatewayAddresses(f *testing.F) {
	for _, text := range []string{"192.0.2.1:4143", "[2001:db8::1]:1,gw.example:2", "gw:0", ":1", "a:b:1", "fe80::1%eth0:1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := readGatewayAddresses(text)
		if err != nil {
			if len(fmt.Sprint(err)) > 1000 {
				t.Errorf("an error of %d bytes", len(fmt.Sprint(err)))
			}
			return
		}
		for _, x := range list {
			if x.Port == 0 || len(list) > gateway.MostAddresses || x.IP.IsValid() == (x.Name != "") || x.Name != "" && !cluster.IsHostname(x.Name) {
				t.Errorf("%q: %+v", text, x)
			}
		}
	})
}
