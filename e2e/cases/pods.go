package cases

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

func podObject(o object, ips string, words []string) error {
	opt, err := readOptions(
		words,
		"unmeshed",
		"port=...",
		"owner=...",
		"sa=",
		"node=",
		"host-ip=",
		"host-network",
		"phase=",
		"inbound=",
		"no-env",
		"native-sidecar",
	)
	if err != nil {
		return err
	}
	meshed := !opt.flags["unmeshed"]
	labels := object{}
	if meshed {
		labels["linkerd.io/control-plane-ns"] = "linkerd"
	}
	setKind(o, "v1", "Pod", opt, labels)
	if err := setOwners(o, opt.values["owner"], podOwnerVersion); err != nil {
		return err
	}
	status, err1 := podStatus(ips, opt)
	ports, err2 := containerPorts(opt.values["port"])
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	app, proxy := object{"name": "app", "image": "none"}, proxyContainer(opt)
	if len(ports) > 0 {
		app["ports"] = ports
	}
	// There is no kubelet to confirm that the containers have ended. With any other grace period,
	// the deletion would never complete.
	spec := object{"terminationGracePeriodSeconds": int64(0), "containers": []any{app}}
	switch {
	case meshed && opt.flags["native-sidecar"]:
		proxy["restartPolicy"] = "Always"
		spec["initContainers"] = []any{proxy}
	case meshed:
		spec["containers"] = []any{app, proxy}
	}
	if node := opt.one("node", "node-1"); node != "" {
		spec["nodeName"] = node
	}
	if account := opt.one("sa", ""); account != "" {
		spec["serviceAccountName"] = account
	}
	if opt.flags["host-network"] {
		spec["hostNetwork"] = true
	}
	o["spec"], o["status"] = spec, status
	return nil
}

func podOwnerVersion(kind string) string {
	switch kind {
	case "Job", "CronJob":
		return "batch/v1"
	case "ReplicationController":
		return "v1"
	default:
		return "apps/v1"
	}
}

func podStatus(ips string, opt options) (object, error) {
	host := opt.one("host-ip", "192.168.0.1")
	status := object{"phase": opt.one("phase", "Running"), "hostIP": host, "hostIPs": []any{object{"ip": host}}}
	var all []any
	for _, ip := range list(ips) {
		if _, err := netip.ParseAddr(ip); err != nil {
			return nil, fmt.Errorf("pod IP: %w", err)
		}
		all = append(all, object{"ip": ip})
	}
	if len(all) > 0 {
		status["podIP"], status["podIPs"] = list(ips)[0], all
	}
	return status, nil
}

// containerPorts parses [NAME=]PORT[@HOSTPORT].
func containerPorts(texts []string) ([]any, error) {
	var ports []any
	for _, text := range texts {
		name, rest := namedPort(text)
		port, hostText, hasHost := strings.Cut(rest, "@")
		p, err := tcpPort("containerPort", name, port)
		if err != nil {
			return nil, err
		}
		if hasHost {
			if p["hostPort"], err = number(hostText); err != nil {
				return nil, err
			}
		}
		ports = append(ports, p)
	}
	return ports, nil
}

func proxyContainer(opt options) object {
	proxy := object{"name": "linkerd-proxy", "image": "none"}
	if !opt.flags["no-env"] {
		proxy["env"] = []any{
			object{"name": "LINKERD2_PROXY_INBOUND_LISTEN_ADDR", "value": opt.one("inbound", "0.0.0.0:4143")},
			object{"name": "LINKERD2_PROXY_ADMIN_LISTEN_ADDR", "value": "0.0.0.0:4191"},
			object{"name": "LINKERD2_PROXY_CONTROL_LISTEN_ADDR", "value": "0.0.0.0:4190"},
		}
	}
	return proxy
}
