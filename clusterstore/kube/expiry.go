package kube

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"isthmus/internal/adminapi"
)

// Expiry returns what of a link's credentials expires first, and when; nil: nothing has such a time.
func Expiry(cfg *rest.Config) (first *adminapi.Expiry) {
	if at, ok := tokenExpiry(cfg.BearerToken); ok {
		first = &adminapi.Expiry{What: "token", At: at.UTC()}
	}
	// The first one is the client's own; a chain is as good as its first link that ends.
	if list, err := certificates(cfg.CertData); err == nil {
		for _, c := range list {
			if first == nil || c.NotAfter.Before(first.At) {
				first = &adminapi.Expiry{What: "client certificate", At: writable(c.NotAfter)}
			}
		}
	}
	return first
}

// writable returns the time or, if it has no year of four digits, which JSON needs, the nearest one that has. Certificates may be
// good until an hour of the year 10000 in UTC.
func writable(t time.Time) time.Time {
	if t = t.UTC(); t.Year() > 9999 {
		return time.Unix(latest, 0).UTC()
	}
	if t.Year() < 0 {
		return time.Time{}
	}
	return t
}

const latest = 253402300799 // the end of the year 9999

// tokenExpiry returns when a token expires, if it is a JSON Web Token that has such a time.
// Whether it is genuine is for API servers to decide.
func tokenExpiry(token string) (at time.Time, ok bool) {
	parts := strings.SplitN(token, ".", 4)
	if len(parts) != 3 {
		return at, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return at, false
	}
	var claims struct {
		Exp *float64 `json:"exp"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil || claims.Exp == nil || math.IsNaN(*claims.Exp) {
		return at, false
	}
	return time.Unix(int64(min(max(*claims.Exp, 0), latest)), 0), true
}
