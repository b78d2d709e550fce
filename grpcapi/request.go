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

// target is the service port, or the endpoint of it, that an authority names.
type target struct {
	service  federation.ServiceID
	instance string // hostname of one endpoint; empty: the service
	port     uint16
}

// parseAuthority reads [INSTANCE.]SERVICE.NAMESPACE.svc.DOMAIN[:PORT]; the port
// is 80 if there is none. Errors are status errors.
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
	return target{}, invalidAuthority(authority)
}

// parseDestination reads the authority of a GetProfile: that of a Get, or
// IP[:PORT]. An IPv4-mapped IPv6 address is read as the IPv4 address. One with a zone
// (fe80::1%eth0) is invalid: zones have a meaning on the client's machine only. Errors
// are status errors.
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

// parseName reads [INSTANCE.]SERVICE.NAMESPACE.svc.DOMAIN. Names that are empty or
// longer than a DNS label are invalid: no object can have them.
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

// authority returns the full authority, with the port.
func (t target) authority(domain string) string {
	return net.JoinHostPort(t.host(domain), strconv.Itoa(int(t.port)))
}

// host is the authority without the port.
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

// maxQuoted is more than any authority that is valid takes.
const maxQuoted = 512

// quoted returns the beginning of what a client has sent, for its status: that waits in
// memory until the client takes it.
func quoted(s string) string {
	return text.Truncate(s, maxQuoted)
}

// splitPort splits an authority into host and port, and removes the brackets of an
// IPv6 address. It accepts a few leading zeros of a port only: the host, which is kept,
// shares the authority's memory, so that must not be large.
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

// token is the context token of a request: how a proxy describes itself.
type token struct {
	Namespace string `json:"ns"`
	Node      string `json:"nodeName"`
	Pod       string `json:"pod"`
}

const (
	// maxLabel is the longest label of a DNS name, and so the longest name of a
	// Service, a namespace or an endpoint.
	maxLabel = 63
	// maxName is the longest name of a node or a Pod in Kubernetes.
	maxName = 253
)

// parseToken reads a context token: a JSON object or, as old proxies send it,
// ns:NAMESPACE. It leaves empty what it can't read, and what is longer than such a
// name may be: a proxy with an invalid token is served too.
func parseToken(s string) token {
	t := readToken(s)
	return token{bounded(t.Namespace, maxLabel), bounded(t.Node, maxName), bounded(t.Pod, maxName)}
}

// bounded returns the name, or nothing if it is longer than limit.
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

// jsonSpace is what JSON ignores between its texts.
const jsonSpace = " \t\r\n"

// plainToken reads a JSON object as proxies write it: of known fields, whose values are
// ASCII without escapes. ok is false for anything else. encoding/json would read it too, but
// needs so much stack that it is a tenth of what a new stream costs; see
// docs/performance.md.
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
		value = strings.Clone(value) // it is kept, and the token is not
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

// plainText cuts off the text in quotes that a string begins with.
func plainText(s string) (text, rest string, ok bool) {
	s, ok = strings.CutPrefix(strings.TrimLeft(s, jsonSpace), `"`)
	text, rest, closed := strings.Cut(s, `"`)
	special := func(r rune) bool { return r < ' ' || r > '~' || r == '\\' }
	return text, rest, ok && closed && !strings.ContainsFunc(text, special)
}

// addNamespace adds the client's namespace to a key, if it can make a difference.
func (t token) addNamespace(k federation.ProfileKey) federation.ProfileKey {
	if k.Instance == "" && t.Namespace != k.Service.Namespace {
		k.Namespace = t.Namespace
	}
	return k
}

// A client whose Get has this metadata, which no proxy sends, gets the endpoints with
// their tiers and standings: see wire.Encoder.Explaining. Its messages are encoded for it
// alone.
const (
	explainKey   = "isthmus-explain"
	explainTiers = "tiers"
)

func asksForTiers(ctx context.Context) bool {
	return slices.Equal(metadata.ValueFromIncomingContext(ctx, explainKey), []string{explainTiers})
}
