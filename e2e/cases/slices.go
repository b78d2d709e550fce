package cases

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// parseSlice parses: slice CLUSTER [NS/]NAME SERVICE PORTS [ENDPOINT...] [options].
func parseSlice(p *parser, args []string) (action, error) {
	endpoints := []any{}
	var words []string
	addressType := ""
	namespace, name := p.named(args[1])
	for _, word := range args[4:] {
		if strings.HasPrefix(word, "label.") || strings.HasPrefix(word, "annotation.") {
			words = append(words, word)
			continue
		}
		made, family, err := sliceEndpoints(word, namespace)
		if err != nil {
			return nil, err
		}
		if addressType != "" && family != addressType {
			return nil, fmt.Errorf("%q has address type %s, the previous endpoints have %s", word, family, addressType)
		}
		addressType = family
		endpoints = append(endpoints, made...)
	}
	opt, err := readOptions(words)
	if err != nil {
		return nil, err
	}
	ports, err := slicePorts(args[3])
	if err != nil {
		return nil, err
	}
	o := object{
		"metadata": object{"name": name, "namespace": namespace}, "addressType": addressType,
		"ports": ports, "endpoints": endpoints,
	}
	setKind(o, "discovery.k8s.io/v1", "EndpointSlice", opt, object{"kubernetes.io/service-name": args[2]})
	return func(ctx context.Context, r *run) error {
		u := &unstructured.Unstructured{Object: o}
		if addressType == "" {
			// The address type of a slice is immutable, even without endpoints.
			found, err := r.addressType(ctx, args[0], namespace, name)
			if err != nil {
				return err
			}
			u = u.DeepCopy()
			u.Object["addressType"] = found
		}
		return r.apply(ctx, args[0], u)
	}, nil
}

func slicePorts(text string) ([]any, error) {
	ports := []any{}
	for _, t := range list(text) {
		name, portText := namedPort(t)
		p := object{"name": name, "protocol": "TCP"}
		if portText != "" {
			port, err := number(portText)
			if err != nil {
				return nil, err
			}
			p["port"] = port
		} else if name == "" {
			return nil, fmt.Errorf("a port without name and number in %q", text)
		}
		ports = append(ports, p)
	}
	return ports, nil
}

// sliceEndpoints parses ADDRESS[,WORD...]. A range of addresses expands to several endpoints.
func sliceEndpoints(text, namespace string) (endpoints []any, addressType string, err error) {
	address, more, _ := strings.Cut(text, ",")
	addrs, err := expand(address)
	if err != nil {
		return nil, "", err
	}
	for _, addr := range addrs {
		e := object{
			"addresses":  []any{addr},
			"conditions": object{"ready": true, "serving": true, "terminating": false},
		}
		if more != "" {
			for word := range strings.SplitSeq(more, ",") {
				if err := endpointWord(e, word, namespace); err != nil {
					return nil, "", fmt.Errorf("endpoint %q: %w", text, err)
				}
			}
		}
		endpoints = append(endpoints, e)
	}
	ip, err := netip.ParseAddr(addrs[0])
	if err != nil {
		return nil, "", fmt.Errorf("endpoint %q: %w", text, err)
	}
	if ip.Is4() {
		return endpoints, "IPv4", nil
	}
	return endpoints, "IPv6", nil
}

// endpointWord sets the field of an endpoint that a word specifies.
func endpointWord(e object, word, namespace string) error {
	key, value, hasValue := strings.Cut(word, "=")
	if hasValue && value == "" {
		return fmt.Errorf("%s= without a value", key)
	}
	switch {
	case key == "pod" && hasValue:
		e["targetRef"] = object{"kind": "Pod", "name": value, "namespace": namespace}
	case key == "ew" && hasValue:
		e["targetRef"] = object{"kind": "ExternalWorkload", "name": value, "namespace": namespace}
	case key == "zone" && hasValue:
		e["zone"] = value
	case key == "hint" && hasValue:
		addHints(e, "forZones", value)
	case key == "nodehint" && hasValue:
		addHints(e, "forNodes", value)
	case key == "hostname" && hasValue:
		e["hostname"] = value
	case key == "node" && hasValue:
		e["nodeName"] = value
	case word == "unready":
		e["conditions"] = object{"ready": false, "serving": false, "terminating": false}
	case word == "terminating":
		e["conditions"] = object{"ready": false, "serving": true, "terminating": true}
	case word == "nil":
		e["conditions"] = object{}
	default:
		return fmt.Errorf("unknown word %q", word)
	}
	return nil
}

// addHints adds names separated by + to a list in the endpoint's hints.
func addHints(e object, list, names string) {
	hints, ok := e["hints"].(object)
	if !ok {
		hints = object{}
		e["hints"] = hints
	}
	var all []any
	for name := range strings.SplitSeq(names, "+") {
		all = append(all, object{"name": name})
	}
	hints[list] = all
}

// parseExpectSlices parses: expect-slices CLUSTER NS SERVICE SECTION.
func parseExpectSlices(p *parser, args []string) (action, error) {
	want, err := p.jsonSection(args[3])
	if err != nil {
		return nil, err
	}
	want = sorted(want)
	return func(ctx context.Context, r *run) error {
		return eventually(
			ctx,
			wait{limit: r.runner.opt.Timeout, poll: 50 * time.Millisecond, hold: holdTime},
			func() (int64, error) {
				got, err := r.slices(ctx, args[0], args[1], args[2])
				if err != nil {
					return 0, err
				}
				if !reflect.DeepEqual(got, want) {
					return 0, fmt.Errorf("the EndpointSlices of %s/%s in %s differ (- want, + got):\n%s",
						args[1], args[2], args[0], jsonDiff(want, got))
				}
				return 0, nil
			},
		)
	}, nil
}

// levelSlice returns the fields of an EndpointSlice that expect-slices compares.
func levelSlice(slice object) object {
	level := object{}
	for _, key := range []string{"addressType", "ports", "endpoints"} {
		if v, ok := slice[key]; ok {
			level[key] = v
		}
	}
	meta, _ := slice["metadata"].(object)
	if labels, ok := meta["labels"]; ok {
		level["labels"] = labels
	}
	if owners, _ := meta["ownerReferences"].([]any); len(owners) > 0 {
		if owner, ok := owners[0].(object); ok {
			level["owner"] = fmt.Sprintf("%v/%v/%v", owner["apiVersion"], owner["kind"], owner["name"])
		}
	}
	endpoints, _ := level["endpoints"].([]any)
	for _, e := range endpoints {
		if endpoint, ok := e.(object); ok {
			if ref, ok := endpoint["targetRef"].(object); ok {
				delete(ref, "uid")
			}
		}
	}
	return level
}

// sorted sorts all lists in a JSON value by the JSON text of their elements. It replaces null by an
// empty list, because the API returns null for a slice without endpoints or ports.
func sorted(v any) any {
	switch v := v.(type) {
	case object:
		all := make(object, len(v))
		for key, value := range v {
			if value == nil && (key == "endpoints" || key == "ports") {
				value = []any{}
			}
			all[key] = sorted(value)
		}
		return all
	case []any:
		type item struct {
			text  string
			value any
		}
		items := make([]item, len(v))
		for i, value := range v {
			value = sorted(value)
			items[i] = item{jsonText(value), value}
		}
		slices.SortStableFunc(items, func(a, b item) int { return strings.Compare(a.text, b.text) })
		all := make([]any, len(v))
		for i, it := range items {
			all[i] = it.value
		}
		return all
	default:
		return v
	}
}

// jsonText returns compact JSON with keys in alphabetical order.
func jsonText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%v (%v)", v, err)
	}
	return string(text)
}
