package cases

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"time"

	"isthmus/e2e/harness"
)

// gatewayObject builds the Service of Linkerd's multicluster gateway, as in Linkerd's chart. The
// hosts argument lists the addresses and names of its load balancer, or is "-".
func gatewayObject(o object, hosts string, words []string) error {
	opt, err := readOptions(words, "external-ip=...", "identity=", "port=", "probe=")
	if err != nil {
		return err
	}
	annotations := object{"mirror.linkerd.io/multicluster-gateway": "true"}
	if identity := opt.one("identity", "gateway.identity.example"); identity != "" {
		annotations["mirror.linkerd.io/gateway-identity"] = identity
	}
	var ports []any
	var errs []error
	add := func(name, text string) {
		n, err := number(text)
		errs = append(errs, err)
		ports = append(ports, object{"name": name, "port": n, "protocol": "TCP"})
	}
	add("mc-gateway", opt.one("port", "4143"))
	if probe := opt.one("probe", ""); probe != "" {
		add("mc-probe", probe)
		annotations["mirror.linkerd.io/probe-path"], annotations["mirror.linkerd.io/probe-period"] = "/ready", "1s"
	}
	maps.Copy(annotations, opt.annotations)
	opt.annotations = annotations
	setKind(o, "v1", "Service", opt, nil)
	spec := object{"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": ports}
	if ips := opt.values["external-ip"]; len(ips) > 0 {
		spec["externalIPs"] = asAny(ips)
	}
	o["spec"] = spec
	ingress, err := ingressOf(hosts)
	o["status"] = object{"loadBalancer": object{"ingress": ingress}}
	return errors.Join(append(errs, err)...)
}

// ingressOf returns the status of a load balancer with the given addresses and names.
func ingressOf(hosts string) ([]any, error) {
	ingress := []any{}
	for _, word := range list(hosts) {
		texts, err := expand(word)
		if err != nil {
			return nil, err
		}
		for _, text := range texts {
			if _, err := netip.ParseAddr(text); err == nil {
				ingress = append(ingress, object{"ip": text})
			} else {
				ingress = append(ingress, object{"hostname": text})
			}
		}
	}
	return ingress, nil
}

func ownAddress(text string) (netip.AddrPort, error) {
	addr, err := netip.ParseAddrPort(text)
	if err != nil || !addr.Addr().IsLoopback() {
		return addr, fmt.Errorf("%q is not a loopback IP:PORT", text)
	}
	return addr, nil
}

// parseUnasked parses: unasked IP:PORT.
func parseUnasked(_ *parser, args []string) (action, error) {
	addr, err := ownAddress(args[0])
	return func(_ context.Context, r *run) error {
		s := r.answering[addr]
		if s == nil {
			return fmt.Errorf("no server listens on %s", addr)
		}
		if n := s.Asked(); n > 0 {
			return fmt.Errorf("%s received %d requests", addr, n)
		}
		return nil
	}, err
}

// parseAnswers parses: answers IP:PORT CODE|none.
func parseAnswers(_ *parser, args []string) (action, error) {
	addr, err := ownAddress(args[0])
	if err != nil {
		return nil, err
	}
	code := 0
	if args[1] != "none" {
		n, err := number(args[1])
		if err != nil || n < 200 || n > 599 {
			return nil, fmt.Errorf("%q is neither none nor an HTTP status from 200 to 599", args[1])
		}
		code = int(n)
	}
	return func(ctx context.Context, r *run) error { return answers(ctx, r, addr, code) }, nil
}

// answers makes the server on addr respond with a status code from now on. If code is 0, the server
// stops.
func answers(ctx context.Context, r *run, addr netip.AddrPort, code int) error {
	s := r.answering[addr]
	switch {
	case s == nil && code == 0:
		return fmt.Errorf("no server listens on %s", addr)
	case code == 0:
		delete(r.answering, addr)
		s.Close()
		return nil
	case s == nil:
		// A case in another process on this machine may be using the address.
		err := harness.Poll(ctx, time.Minute, 100*time.Millisecond, func() (err error) {
			s, err = harness.StartLinkerdGateway(addr.String(), code)
			return err
		})
		if err != nil {
			return fmt.Errorf("a server at %s: %w", addr, err)
		}
		r.answering[addr] = s
		return nil
	}
	s.Answer(code)
	return nil
}
