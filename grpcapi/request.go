package grpcapi

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"isthmus/federation"
	"isthmus/internal/text"
)

// target is the destination that an authority names: a service port, or one endpoint of a service
// port.
type target struct {
	service  federation.ServiceID
	instance string // hostname of the endpoint; empty if the target is the whole service
	port     uint16
}

// parseAuthority parses [INSTANCE.]SERVICE.NAMESPACE.svc.DOMAIN[:PORT]. The default port is 80. All
// errors are gRPC status errors.
func parseAuthority(authority, domain string) (target, error) {
	host, port, ok := splitPort(authority)
	if !ok {
		return target{}, invalidAuthority(authority)
	}
	t, ok := parseName(host, domain)
	if ok {
		t.port = port
		return t, nil
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return target{}, status.Errorf(codes.InvalidArgument,
			"IP queries not supported by Get API: host=%s", quoted(host))
	}
	return target{}, invalidAuthority(authority) // with the fields that are strings
}

// parseDestination parses the authority of a GetProfile call, which may also be an IP[:PORT]. An
// IPv4-mapped IPv6 address is converted to an IPv4 address. An address with a zone, such as
// fe80::1%eth0, is invalid, because zones are only meaningful on the client's machine. All errors
// are gRPC status errors.
func parseDestination(authority, domain string) (federation.ProfileKey, error) {
	host, port, ok := splitPort(authority)
	if !ok {
		return federation.ProfileKey{}, invalidAuthority(authority)
	}
	if t, ok := parseName(host, domain); ok {
		return federation.ProfileKey{Service: t.service, Instance: t.instance, Port: port}, nil
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Zone() == "" {
		return federation.ProfileKey{Addr: netip.AddrPortFrom(ip.Unmap(), port)}, nil
	}
	return federation.ProfileKey{}, invalidAuthority(authority)
}

// parseName parses [INSTANCE.]SERVICE.NAMESPACE.svc.DOMAIN. Like Kubernetes, parseName rejects
// empty names and names that are too long for a DNS label.
func parseName(host, domain string) (t target, ok bool) {
	name, ok := strings.CutSuffix(host, ".svc."+domain)
	if !ok {
		return target{}, false
	}
	labels := strings.Split(name, ".")
	if slices.ContainsFunc(labels, invalidLabel) {
		return target{}, false
	}
	switch len(labels) {
	case 2:
	case 3:
		t.instance = labels[0]
		labels = labels[1:]
	default:
		return target{}, false
	}
	t.service = federation.ServiceID{Name: labels[0], Namespace: labels[1]}
	return t, true
}

func invalidLabel(l string) bool {
	return l == "" || len(l) > maxLabel || strings.Contains(l, ":")
}

func (t target) authority(domain string) string {
	return net.JoinHostPort(t.host(domain), strconv.Itoa(int(t.port)))
}

func (t target) host(domain string) string {
	host := t.service.Name + "." + t.service.Namespace + ".svc." + domain
	if t.instance != "" {
		host = t.instance + "." + host
	}
	return host
}

func invalidAuthority(authority string) error {
	return status.Errorf(codes.InvalidArgument, "Invalid authority: %s", quoted(authority))
}

// maxQuoted is the maximum number of bytes of client input that a status message contains. Valid
// authorities are shorter.
const maxQuoted = 512

// quoted returns the beginning of a client's input, for use in a status. The result is short,
// because a gRPC status stays in memory until the client reads it.
func quoted(s string) string {
	return text.Truncate(s, maxQuoted)
}

// splitPort splits an authority into host and port, and removes the brackets around an IPv6
// address. Ports with many leading zeros are rejected. The host is a substring of the authority, so
// storing the host keeps the whole authority in memory.
func splitPort(authority string) (host string, port uint16, ok bool) {
	if !strings.Contains(authority, ":") {
		return authority, 80, true
	}
	host, digits, err := net.SplitHostPort(authority)
	if err != nil {
		return "", 0, false
	}
	n, err := strconv.Atoi(digits)
	if err != nil || len(digits) > len("+65535") || n < 1 || n > 65535 {
		return "", 0, false
	}
	return host, uint16(n), true
}

// token is the parsed context token of a request. Proxies describe themselves in context tokens.
type token struct {
	Namespace string `json:"ns"`
	Node      string `json:"nodeName"`
	Pod       string `json:"pod"`
}

const (
	// maxLabel is the maximum length of a DNS label, and therefore of Service names, namespaces and
	// hostnames.
	maxLabel = 63
	maxName  = 253
)

// parseToken parses a context token, which is either a JSON object or, from old proxies, a string
// in the form ns:NAMESPACE. If the value of a field is invalid or too long, the field is empty in
// the result. The function never fails, because proxies with invalid tokens are served too.
func parseToken(s string) token {
	t := readToken(s)
	return token{bounded(t.Namespace, maxLabel), bounded(t.Node, maxName), bounded(t.Pod, maxName)}
}

func bounded(name string, limit int) string {
	if len(name) > limit {
		return ""
	}
	return name
}

func readToken(s string) token {
	var t token
	if s == "" {
		return t
	}
	if t, ok := plainToken(s); ok {
		return t
	}
	err := json.Unmarshal([]byte(s), &t)
	if err == nil {
		return t
	}
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return t // with the fields that are strings
	}
	if ns, ok := strings.CutPrefix(s, "ns:"); ok && !strings.Contains(ns, ":") {
		return token{Namespace: ns}
	}
	return token{}
}

const jsonSpace = " \t\r\n"

// plainToken parses a JSON object in the form that proxies write: only known fields, and only ASCII
// values without escape sequences. For any other input, plainToken returns false, and the caller
// uses encoding/json, which needs a large stack. Without plainToken, opening a stream would take
// about 30% more CPU time (see docs/performance.md).
func plainToken(s string) (t token, ok bool) {
	rest, ok := strings.CutPrefix(strings.Trim(s, jsonSpace), "{")
	for ok {
		var name, value string
		name, rest, ok = plainText(rest)
		if !ok {
			break
		}
		rest, ok = strings.CutPrefix(strings.TrimLeft(rest, jsonSpace), ":")
		if !ok {
			break
		}
		value, rest, ok = plainText(rest)
		if !ok {
			break
		}
		value = strings.Clone(value) // a copy, so that the stored value does not keep the token in memory
		switch name {
		case "ns":
			t.Namespace = value
		case "nodeName":
			t.Node = value
		case "pod":
			t.Pod = value
		default:
			return token{}, false
		}
		rest = strings.TrimLeft(rest, jsonSpace)
		if rest == "}" {
			return t, true
		}
		rest, ok = strings.CutPrefix(rest, ",")
	}
	return token{}, false
}

func plainText(s string) (text, rest string, ok bool) {
	s, ok = strings.CutPrefix(strings.TrimLeft(s, jsonSpace), `"`)
	text, rest, closed := strings.Cut(s, `"`)
	special := func(r rune) bool { return r < ' ' || r > '~' || r == '\\' }
	return text, rest, ok && closed && !strings.ContainsFunc(text, special)
}

func (t token) addNamespace(k federation.ProfileKey) federation.ProfileKey {
	if k.Instance == "" && t.Namespace != k.Service.Namespace {
		k.Namespace = t.Namespace
	}
	return k
}

// If the metadata of a Get contains isthmus-explain=tiers, the client receives the tier and
// standing of each endpoint (see wire.Encoder.Explaining). Messages for streams that request tiers
// are not shared with other streams.
const (
	explainKey   = "isthmus-explain"
	explainTiers = "tiers"
)

func asksForTiers(ctx context.Context) bool {
	return slices.Equal(metadata.ValueFromIncomingContext(ctx, explainKey), []string{explainTiers})
}
