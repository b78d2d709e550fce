package admin

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Hosts are the host names that browsers may use for the admin server. Hosts protects against DNS
// rebinding. A site can make its own name resolve to the replica's address, and the site's script
// could then read responses. The server rejects names that such a site can have.
type Hosts struct {
	domains []string // all names below these domains are admitted; lower case, with a leading dot
	names   []string // from --admin-hosts; lower case
}

// NewHosts returns the Hosts of a replica in a cluster domain and namespace. names is the parsed
// value of --admin-hosts.
func NewHosts(domain, namespace string, names []string) *Hosts {
	h := &Hosts{names: names}
	for _, d := range []string{domain, "svc", namespace} {
		h.domains = append(h.domains, "."+strings.ToLower(d))
	}
	return h
}

// ParseHosts parses --admin-hosts.
func ParseHosts(list string) ([]string, error) {
	var names []string
	for item := range strings.SplitSeq(list, ",") {
		name := strings.ToLower(strings.TrimSpace(item))
		switch {
		case name == "":
		case len(validation.IsDNS1123Subdomain(name)) > 0:
			return nil, errors.New("give DNS names without scheme and port, separated by commas, such as " +
				"gateway.example.com")
		default:
			names = append(names, name)
		}
	}
	return names, nil
}

// admit reports whether requests with this Host header are allowed. admit allows IP addresses,
// single labels such as localhost, names of the cluster, and names from --admin-hosts.
func (h *Hosts) admit(host string) bool {
	name := hostName(host)
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
		return false
	}
	return !strings.Contains(name, ".") || slices.Contains(h.names, name) ||
		slices.ContainsFunc(h.domains, func(d string) bool { return strings.HasSuffix(name, d) })
}

// hostName returns the host of a Host header in lower case, without port, brackets and final dot.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else if inner, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inner, "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// guard returns a handler that rejects requests that another site's page may have caused. guard
// always allows the paths that the kubelet and Prometheus request, because they may use any name.
func (h *Hosts) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metrics", "/ping", "/live", "/ready":
			next.ServeHTTP(w, r)
			return
		}
		switch {
		case !h.admit(r.Host):
			http.Error(w, fmt.Sprintf("host name %q is not allowed, because it may belong to another site: use an "+
				"IP address, localhost or a name of the cluster, or start Isthmus with "+
				"--admin-hosts=NAME", printable(r.Host)), http.StatusForbidden)
		case fromElsewhere(r):
			http.Error(w, "the request comes from the page of another site: only the replica's own page may send "+
				"requests",
				http.StatusForbidden)
		default:
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
			next.ServeHTTP(w, r)
		}
	})
}

// fromElsewhere reports whether another site's page caused the request, if the browser says so.
// Following a link from another site does not count.
func fromElsewhere(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}
