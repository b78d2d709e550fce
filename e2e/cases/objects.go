package cases

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus/e2e/harness/kube"
)

// parseApply parses the apply command, whose objects are YAML documents.
func parseApply(p *parser, args []string) (action, error) {
	s, err := p.section(args[1])
	if err != nil {
		return nil, err
	}
	objects, err := kube.Parse(s.text)
	if err != nil {
		return nil, fmt.Errorf("section %q (line %d): %w", args[1], s.line, err)
	}
	if len(objects) == 0 {
		return nil, fmt.Errorf("section %q (line %d) has no documents", args[1], s.line)
	}
	return func(ctx context.Context, r *run) error {
		for _, o := range objects {
			if err := r.apply(ctx, args[0], o); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// parseDelete parses the delete command for objects of any kind.
func parseDelete(p *parser, args []string) (action, error) {
	grace := int64(0)
	if len(args) == 4 {
		text, ok := strings.CutPrefix(args[3], "grace=")
		n, err := strconv.ParseInt(text, 10, 64)
		if !ok || err != nil || n < 0 {
			return nil, fmt.Errorf("%q is not grace=SECONDS", args[3])
		}
		grace = n
	}
	namespace, name := p.named(args[2])
	return func(ctx context.Context, r *run) error {
		return r.delete(ctx, args[0], args[1], namespace, name, grace)
	}, nil
}

// parseOwns parses the owns command, which deletes an object written by another program at the end
// of the case.
func parseOwns(p *parser, args []string) (action, error) {
	namespace, name := p.named(args[2])
	return func(_ context.Context, r *run) error { return r.own(args[0], args[1], namespace, name) }, nil
}

// parseObject returns a parser for a command that builds an object only from its arguments.
func parseObject(build func(o object, what string, more []string) error) func(*parser, []string) (action, error) {
	return func(p *parser, args []string) (action, error) {
		o := object{}
		namespace, name := p.named(args[1])
		o["metadata"] = object{"name": name, "namespace": namespace}
		if err := build(o, args[2], args[3:]); err != nil {
			return nil, err
		}
		return func(ctx context.Context, r *run) error {
			return r.apply(ctx, args[0], &unstructured.Unstructured{Object: o})
		}, nil
	}
}

// object is a Kubernetes object, or a part of one, as JSON.
type object = map[string]any

func metadata(o object) object { return o["metadata"].(object) }

func setKind(o object, apiVersion, kind string, opt options, labels object) {
	o["apiVersion"], o["kind"] = apiVersion, kind
	all := object{}
	maps.Copy(all, labels)
	maps.Copy(all, opt.labels)
	if len(all) > 0 {
		metadata(o)["labels"] = all
	}
	if len(opt.annotations) > 0 {
		metadata(o)["annotations"] = opt.annotations
	}
}

// setOwners sets the owner references from a list of KIND/NAME.
func setOwners(o object, owners []string, version func(kind string) string) error {
	var refs []any
	for i, owner := range owners {
		kind, name, ok := strings.Cut(owner, "/")
		if !ok || kind == "" || name == "" {
			return fmt.Errorf("owner %q is not KIND/NAME", owner)
		}
		refs = append(refs, object{
			"apiVersion": version(kind), "kind": kind, "name": name,
			"uid": fmt.Sprintf("00000000-0000-0000-0000-%012d", i+1),
		})
	}
	if len(refs) > 0 {
		metadata(o)["ownerReferences"] = refs
	}
	return nil
}

func number(text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("%q is not a port", text)
	}
	return int64(n), nil
}

// namedPort splits [NAME=]PORT.
func namedPort(text string) (name, port string) {
	if name, port, ok := strings.Cut(text, "="); ok {
		return name, port
	}
	return "", text
}

// tcpPort returns a TCP port with an optional name. The key argument is the JSON field for the port
// number.
func tcpPort(key, name, port string) (object, error) {
	n, err := number(port)
	if err != nil {
		return nil, err
	}
	p := object{key: n, "protocol": "TCP"}
	if name != "" {
		p["name"] = name
	}
	return p, nil
}

// list splits a comma-separated list. "-" is an empty list.
func list(text string) []string {
	if text == "-" {
		return nil
	}
	return strings.Split(text, ",")
}

func asAny(texts []string) []any {
	all := make([]any, len(texts))
	for i, t := range texts {
		all[i] = t
	}
	return all
}

// svcObject builds a Service. The ports argument is "-" or [NAME=]PORT[/TARGETPORT],...
func svcObject(o object, ports string, words []string) error {
	opt, err := readOptions(
		words,
		"selector.",
		"headless",
		"cluster-ip=...",
		"external-name=",
		"internal-traffic=",
		"affinity=",
		"family=...",
	)
	if err != nil {
		return err
	}
	setKind(o, "v1", "Service", opt, nil)
	spec := object{}
	o["spec"] = spec
	var all []any
	for _, text := range list(ports) {
		name, rest := namedPort(text)
		port, target, hasTarget := strings.Cut(rest, "/")
		p, err := tcpPort("port", name, port)
		if err != nil {
			return err
		}
		if hasTarget {
			p["targetPort"] = target
			if n, err := number(target); err == nil {
				p["targetPort"] = n
			}
		}
		all = append(all, p)
	}
	if len(all) > 0 {
		spec["ports"] = all
	}
	if selector := opt.under("selector"); len(selector) > 0 {
		spec["selector"] = selector
	}
	if ips := opt.values["cluster-ip"]; len(ips) > 0 {
		spec["clusterIP"], spec["clusterIPs"] = ips[0], asAny(ips)
	}
	if opt.flags["headless"] {
		spec["clusterIP"], spec["clusterIPs"] = "None", []any{"None"}
	}
	return svcSpec(spec, opt)
}

func svcSpec(spec object, opt options) error {
	if external := opt.one("external-name", ""); external != "" {
		spec["type"], spec["externalName"] = "ExternalName", external
	}
	if traffic := opt.one("internal-traffic", ""); traffic != "" {
		spec["internalTrafficPolicy"] = traffic
	}
	if seconds := opt.one("affinity", ""); seconds != "" {
		n, err := number(seconds)
		if err != nil {
			return err
		}
		spec["sessionAffinity"], spec["sessionAffinityConfig"] = "ClientIP", object{
			"clientIP": object{"timeoutSeconds": n},
		}
	}
	if families := opt.values["family"]; len(families) > 0 {
		spec["ipFamilies"], spec["ipFamilyPolicy"] = asAny(families), "SingleStack"
		if len(families) > 1 {
			spec["ipFamilyPolicy"] = "RequireDualStack"
		}
	}
	return nil
}

func ewObject(o object, ips string, words []string) error {
	opt, err := readOptions(words, "port=...", "identity=", "server-name=", "owner=...", "unready")
	if err != nil {
		return err
	}
	setKind(o, "workload.linkerd.io/v1beta1", "ExternalWorkload", opt, nil)
	name := metadata(o)["name"].(string)
	if err := setOwners(o, opt.values["owner"], func(string) string { return "example.com/v1" }); err != nil {
		return err
	}
	spec := object{
		"meshTLS": object{
			"identity":   opt.one("identity", "spiffe://root/"+name),
			"serverName": opt.one("server-name", name+".vm.example"),
		},
	}
	var addrs, ports []any
	for _, ip := range list(ips) {
		addrs = append(addrs, object{"ip": ip})
	}
	for _, text := range opt.values["port"] {
		name, port := namedPort(text)
		p, err := tcpPort("port", name, port)
		if err != nil {
			return err
		}
		ports = append(ports, p)
	}
	if len(addrs) > 0 {
		spec["workloadIPs"] = addrs
	}
	if len(ports) > 0 {
		spec["ports"] = ports
	}
	o["spec"] = spec
	ready := "True"
	if opt.flags["unready"] {
		ready = "False"
	}
	o["status"] = object{"conditions": []any{object{
		"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z",
	}}}
	return nil
}
