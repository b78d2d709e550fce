package check

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// Before what expires does so, there is a warning: credentials can be renewed by one command;
// a mesh's trust anchors take weeks.
const (
	soonCredentials = 7 * 24 * time.Hour
	soonAnchors     = 30 * 24 * time.Hour
)

// maxCertificates of one text in PEM are read.
const maxCertificates = 100

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
	const latest = 253402300799 // the end of the year 9999
	return time.Unix(int64(min(max(*claims.Exp, 0), latest)), 0), true
}

// certificates reads those of a text in PEM. A block that is no certificate is an error.
func certificates(text []byte) (list []*x509.Certificate, err error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if len(list) == maxCertificates {
			return nil, fmt.Errorf("it has more than %d certificates", maxCertificates)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d can't be read", len(list)+1) // x509's error quotes it
		}
		list = append(list, c)
	}
	return list, nil
}

// credentialExpiry returns what of a link's credentials expires first, and when; empty: nothing
// has such a time.
func credentialExpiry(cfg *rest.Config) (what string, at time.Time) {
	if exp, ok := tokenExpiry(cfg.BearerToken); ok {
		what, at = "token", exp
	}
	// The first one is the client's own; a chain is as good as its first link that ends.
	if list, err := certificates(cfg.CertData); err == nil {
		for _, c := range list {
			if what == "" || c.NotAfter.Before(at) {
				what, at = "client certificate", c.NotAfter
			}
		}
	}
	return what, at
}

// expiry describes when something expires, and how bad that is.
func expiry(now, at time.Time, soon time.Duration) (level Level, text string) {
	left := at.Sub(now)
	when := at.UTC().Format("2006-01-02 15:04 MST")
	switch {
	case left <= 0:
		return Failure, "has expired, at " + when
	case left < soon:
		return Warning, fmt.Sprintf("expires in %s, at %s", roughly(left), when)
	}
	return OK, fmt.Sprintf("is good until %s", when)
}

// roughly is a duration in words: rounded, in the largest unit that it has nearly two of.
func roughly(d time.Duration) string {
	for _, u := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "days"}, {time.Hour, "hours"}, {time.Minute, "minutes"}} {
		if d >= u.size*19/10 {
			return fmt.Sprintf("%d %s", d.Round(u.size)/u.size, u.name)
		}
	}
	if seconds := d.Round(time.Second) / time.Second; seconds != 1 {
		return fmt.Sprintf("%d seconds", seconds)
	}
	return "1 second"
}
