package client

import "isthmus/cmd/isthmus/internal/cli"

// Verbs returns all verbs of this package, in the order of the program's
// overview. preflight is for checks where there is no gateway.
func Verbs(preflight Preflighter) []cli.Verb {
	return []cli.Verb{
		clustersVerb(), servicesVerb(), exportsVerb(), explainVerb(), checkVerb(preflight), getVerb(), profileVerb(),
	}
}
