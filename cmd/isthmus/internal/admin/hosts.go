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

// Hosts decides which host names browsers may use for the admin server, to protect against DNS
// rebinding. In a DNS rebinding attack, a site makes its own name resolve to the replica's address,
// so that the site's script can read responses. The server rejects all names that another site
// could own.
type Hosts struct {
	domains []string // names below these domains are allowed; lower case, with a leading dot
	names   []string // from --admin-hosts; lower case
}

// NewHosts returns the Hosts for a replica with the given cluster domain and namespace. The extra
// names come from --admin-hosts.
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
			return nil, errors.New("use comma-separated DNS names without a scheme or port, " +
				"such as gateway.example.com")
		default:
			names = append(names, name)
		}
	}
	return names, nil
}

// The admit method reports whether requests with this Host header are allowed. The allowed names
// are IP addresses, single labels such as localhost, and names in --admin-hosts. DNS names that end
// with the cluster domain, svc or the replica's namespace are also allowed.
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

func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else if inner, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inner, "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// The guard method returns a handler that rejects requests that may come from a web page on another
// site. The handler accepts any host name on the paths for the kubelet and Prometheus.
func (h *Hosts) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metrics", "/ping", "/ready":
			next.ServeHTTP(w, r)
			return
		}
		switch {
		case !h.admit(r.Host):
			http.Error(w, fmt.Sprintf("host name %q is not allowed, because it may belong to another site: "+
				"use an IP address, localhost or a DNS name within the cluster, "+
				"or start Isthmus with --admin-hosts=NAME", printable(r.Host)), http.StatusForbidden)
		case fromElsewhere(r):
			http.Error(w, "the request comes from a page on another site: "+
				"only pages that this replica serves may send requests",
				http.StatusForbidden)
		default:
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
			next.ServeHTTP(w, r)
		}
	})
}

// fromElsewhere reports whether, according to the browser, a page on another site initiated the
// request. If the user follows a link on another site, the result is false, so that links to the
// admin server work.
func fromElsewhere(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}
