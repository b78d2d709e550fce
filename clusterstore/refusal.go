package clusterstore

import (
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"isthmus/clusterstore/guard"
)

// explain returns err or, if it is that an API server refuses the credentials, an error that says so:
// from such a server's error alone (Unauthorized, or an alert of TLS) one may take it for a failure of
// the network or of the server. nil stays nil.
func (c *credentials) explain(err error) error {
	refused := ""
	switch {
	case err == nil || c.rest == nil: // the own cluster has no Secret
		return err
	case guard.RefusedCertificate(err) != "":
		refused = "client certificate"
	case !apierrors.IsUnauthorized(err):
		return err
	case c.rest.BearerToken == "":
		refused = "client certificate"
	case len(c.rest.CertData) == 0:
		refused = "token"
	default:
		refused = "credentials"
	}
	if c.expiry != nil && !time.Now().Before(c.expiry.At) {
		refused += ", expired at " + c.expiry.At.UTC().Format(time.RFC3339)
	}
	return fmt.Errorf("the API server refuses the %s: %w; write the link Secret anew", refused, err)
}
