package main

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"isthmus/federation"
	"isthmus/internal/text"
)

// authorityForms is what is accepted besides the name that applications dial.
const authorityForms = "give NAMESPACE/NAME, NAME.NAMESPACE, or what the application dials, such as web.shop.svc.cluster.local:80"

// importSuffix ends the DNS names of ServiceImports.
const importSuffix = ".svc.clusterset.local"

// authority returns the authority that given stands for, as proxies send it. Short are
// NAMESPACE/NAME and NAME.NAMESPACE, also with .svc, each with or without :PORT; without, it
// is the Service's only port, or 80 if that is one of several. A cluster IP stands for its
// Service, and the DNS name of a ServiceImport for the Service that clients of that name reach. A
// name that ends with the cluster's domain is left as it is. Errors are for people.
func (p *pages) authority(given string) (string, error) {
	host, port := given, ""
	if h, p, err := net.SplitHostPort(given); err == nil {
		host, port = h, p
	}
	if ip, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil && ip.Zone() == "" {
		return p.ofAddress(ip.Unmap(), port)
	}
	id, instance, short := shortName(host)
	if short {
		return p.withPort(id, instance, port)
	}
	if strings.HasSuffix(host, ".svc."+p.domain) {
		return given, nil
	}
	if id, ok := importName(host); ok {
		return p.ofImport(id, port)
	}
	return "", fmt.Errorf("%q is no service of the cluster domain %s: %s",
		text.Truncate(given, maxRepeated), p.domain, authorityForms)
}

// shortName reads a name without the cluster's domain.
func shortName(host string) (id federation.ServiceID, instance string, ok bool) {
	if namespace, name, slash := strings.Cut(host, "/"); slash {
		id = federation.ServiceID{Namespace: namespace, Name: name}
		return id, "", nameable(namespace) && nameable(name)
	}
	labels := strings.Split(strings.TrimSuffix(host, ".svc"), ".")
	if len(labels) == 3 && strings.HasSuffix(host, ".svc") {
		instance, labels = labels[0], labels[1:]
	}
	if len(labels) != 2 || labels[1] == "svc" || !nameable(labels[0]) || !nameable(labels[1]) {
		return id, "", false
	}
	return federation.ServiceID{Namespace: labels[1], Name: labels[0]}, instance, true
}

// importName reads the DNS name of a ServiceImport, with or without a final dot.
func importName(host string) (id federation.ServiceID, ok bool) {
	rest, ok := strings.CutSuffix(strings.TrimSuffix(host, "."), importSuffix)
	if !ok {
		return id, false
	}
	name, namespace, _ := strings.Cut(rest, ".")
	id = federation.ServiceID{Namespace: namespace, Name: name}
	return id, nameable(namespace) && nameable(name)
}

// nameable reports whether a text can be a label of a host.
func nameable(label string) bool { return label != "" && !strings.ContainsAny(label, "./:") }

// withPort returns a service's authority.
func (p *pages) withPort(id federation.ServiceID, instance, port string) (string, error) {
	if port == "" {
		ports := p.here.Ports(id)
		switch {
		case len(ports) == 1:
			port = strconv.Itoa(int(ports[0]))
		case len(ports) == 0 || slices.Contains(ports, 80):
			port = "80"
		default:
			return "", fmt.Errorf("%v has several ports: add one of %s, such as %v:%d", id, portList(ports), id, ports[0])
		}
	}
	host := id.Name + "." + id.Namespace + ".svc." + p.domain
	if instance != "" {
		host = instance + "." + host
	}
	return net.JoinHostPort(host, port), nil
}

// ofImport returns the authority of the Service that clients of a ServiceImport reach: DNS answers
// with that Service's cluster IPs.
func (p *pages) ofImport(serviceImport federation.ServiceID, port string) (string, error) {
	id, ok := p.here.ServiceOfImport(serviceImport)
	if !ok {
		name := text.Truncate(serviceImport.String(), maxRepeated)
		return "", fmt.Errorf("no Service is written for ServiceImport %s, "+
			"so clients of its DNS name get no endpoints: a headless ServiceImport never has one. "+
			"isthmus exports %s shows what is written for that name, and why",
			name, name)
	}
	return p.withPort(id, "", port)
}

// portList lists the first ports.
func portList(ports []uint16) string {
	list := make([]string, len(ports))
	for i, p := range ports {
		list[i] = fmt.Sprint(":", p)
	}
	return text.Some(list, 10)
}

// ofAddress returns the authority of the Service with that cluster IP. Clients connect to
// all other addresses as they are, whatever services those belong to.
func (p *pages) ofAddress(ip netip.Addr, port string) (string, error) {
	owner := p.here.OwnerOf(ip)
	switch {
	case owner.Service != nil:
		return p.withPort(*owner.Service, "", port)
	case owner.Claimed != "":
		return "", fmt.Errorf("several objects of the gateway's cluster claim %v: %s: "+
			"clients that dial it wait until only one has it. "+
			"isthmus check names these objects if the conflict lasts", ip, printable(owner.Claimed))
	case owner.Name != "":
		return "", fmt.Errorf("%v belongs to %s of the gateway's cluster, not to a Service: clients that dial it connect straight to it. "+
			"Name the service that they dial, and give this address by address (--address)", ip, printable(owner.Name))
	}
	return "", fmt.Errorf("%v is no Service's cluster IP, nor a Pod's, in the gateway's cluster: clients that dial it connect straight to it. "+
		"If it is an address of a linked cluster, name the service that clients dial, and give this address by address (--address)", ip)
}
