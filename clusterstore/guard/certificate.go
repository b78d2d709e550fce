package guard

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"isthmus/internal/text"
)

// Certificate returns why a server's certificate is not good, printable, if that is why err
// has come of a request; else an empty text. authority: the certificate is another
// authority's than those that the client was given.
func Certificate(err error) (why string, authority bool) {
	failed, ok := errors.AsType[*tls.CertificateVerificationError](err)
	if !ok {
		return "", false
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](failed.Err); !ok || len(failed.UnverifiedCertificates) == 0 {
		return text.Clean(failed.Err.Error(), text.Long), false
	}
	return fmt.Sprintf("it was issued by %s, which is not the certificate authority that the kubeconfig has",
		text.Clean(failed.UnverifiedCertificates[0].Issuer.String(), text.Long)), true
}

// RefusedCertificate returns why a server refuses the certificate that the client has, or has not,
// shown it: the TLS alert that it sent, if that is why err has come of a request; else an empty text.
func RefusedCertificate(err error) string {
	alert, ok := errors.AsType[*net.OpError](err)
	if !ok || alert.Op != "remote error" { // as crypto/tls calls what the other end sent
		return ""
	}
	why, ok := strings.CutPrefix(alert.Err.Error(), "tls: ")
	if !ok || !strings.Contains(why, "certificate") {
		return ""
	}
	return why
}
