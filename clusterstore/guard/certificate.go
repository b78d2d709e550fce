package guard

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"unicode"
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
		return printable(failed.Err.Error()), false
	}
	return fmt.Sprintf("it was issued by %s, which is not the certificate authority that the kubeconfig has",
		printable(failed.UnverifiedCertificates[0].Issuer.String())), true
}

// printable cuts a text off after 300 bytes, and leaves out what a terminal may obey.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text[:min(len(text), 300)])
}
