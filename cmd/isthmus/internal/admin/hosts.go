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

// Hosts are the names by which browsers may ask for the admin server's pages. A site can make
// its own name resolve to the gateway's address (DNS rebinding), and its script then reads what the
// gateway answers. So names are refused that such a site can have.
type Hosts struct {
	domains []string // all names below these are admitted; lower case, with a dot before
	names   []string // of --admin-hosts; lower case
}

// NewHosts returns those of a gateway in this cluster domain and namespace, with the names
// of --admin-hosts.
func NewHosts(domain, namespace string, names []string) *Hosts {
	h := &Hosts{names: names}
	for _, d := range []string{domain, "svc", namespace} {
		h.domains = append(h.domains, "."+strings.ToLower(d))
	}
	return h
}

// ParseHosts reads --admin-hosts.
func ParseHosts(list string) ([]string, error) {
	var names []string
	for item := range strings.SplitSeq(list, ",") {
		name := strings.ToLower(strings.TrimSpace(item))
		switch {
		case name == "":
		case len(validation.IsDNS1123Subdomain(name)) > 0:
			return nil, errors.New("give DNS names without scheme and port, divided by commas, " +
				"such as gateway.example.com")
		default:
			names = append(names, name)
		}
	}
	return names, nil
}

// admit reports whether a request with this Host may have an answer: it is an IP address, a single
// label such as localhost, or a name of the cluster or of --admin-hosts.
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

// hostName is a Host without port, brackets and final dot, in lower case.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else if inner, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inner, "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// guard returns a handler that refuses what another site's page can have made a browser ask. What
// kubelets and Prometheus ask for is not refused: they may use any name.
func (h *Hosts) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metrics", "/ping", "/live", "/ready":
			next.ServeHTTP(w, r)
			return
		}
		switch {
		case !h.admit(r.Host):
			http.Error(w, fmt.Sprintf("the gateway is asked as %q, which may be the name of another site: "+
				"use an IP address, localhost or a name of the cluster, "+
				"or start the gateway with --admin-hosts=NAME", printable(r.Host)), http.StatusForbidden)
		case fromElsewhere(r):
			http.Error(w, "another site's page asks for this: only the gateway's own page gets it",
				http.StatusForbidden)
		default:
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
			next.ServeHTTP(w, r)
		}
	})
}

// fromElsewhere reports whether another site's page has asked, as far as the browser says. To
// follow a link from there is no such request.
func fromElsewhere(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}
