package clusterstore

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/gateway"
)

// unreadableNetwork is no name of a network. A cluster whose network can't be read is on
// another one: to send traffic to Pods that can't be reached would be worse.
const unreadableNetwork = "(can't be read)"

// namelessNetwork stands, for people, for the network without a name, which clusters without
// the annotation are on.
const namelessNetwork = "(without a name)"

// CheckNetwork returns why a text can't be the name of a network; nil: it can.
func CheckNetwork(text string) error {
	if text != "" && len(validation.IsValidLabelValue(text)) > 0 {
		return fmt.Errorf("%s can't be the name of a network: that has up to %d letters, digits, '-', '_' and '.', and begins and ends with a letter or digit",
			quote(text), validation.LabelValueMaxLength)
	}
	return nil
}

// readNetwork reads the annotation for the cluster's network.
func (r *settingsReader) readNetwork() {
	text := strings.TrimSpace(r.annotations[NetworkAnnotation])
	r.settings.network = text
	if err := CheckNetwork(text); err != nil {
		r.settings.network = unreadableNetwork
		r.settings.warnings = append(r.settings.warnings, fmt.Sprintf("annotation %s: %v; it counts as another network than the gateway's", NetworkAnnotation, err))
	}
}

// readGatewayAddresses reads HOST:PORT,... . HOST is an IP address, or a name.
func readGatewayAddresses(text string) (list []gateway.Target, err error) {
	for item := range strings.SplitSeq(text, ",") {
		host, port, err := net.SplitHostPort(strings.TrimSpace(item))
		if err != nil {
			return nil, fmt.Errorf("%s is no HOST:PORT", quote(item))
		}
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 {
			return nil, fmt.Errorf("%s has no port from 1 to 65535", quote(item))
		}
		x := gateway.Target{Port: uint16(number)}
		if ip, err := netip.ParseAddr(host); err == nil && ip.Zone() == "" {
			x.IP = ip.Unmap()
		} else if x.Name = strings.Clone(host); !cluster.IsHostname(host) {
			return nil, fmt.Errorf("%s has neither an IP address nor a name before its port", quote(item))
		}
		if list = append(list, x); len(list) > gateway.MostAddresses {
			return nil, fmt.Errorf("more than %d addresses", gateway.MostAddresses)
		}
	}
	return list, nil
}

func readGatewayIdentity(text string) (string, error) {
	if !cluster.IsIdentity(text) {
		return "", fmt.Errorf("%s is no identity such as linkerd-gateway.linkerd-multicluster.serviceaccount.identity.linkerd.cluster.local", quote(text))
	}
	return text, nil
}
