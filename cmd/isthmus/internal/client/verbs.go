package client

import (
	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/internal/adminapi"
)

// Verbs returns all verbs of this package, in the order of the program's
// overview. own is what this program was built from; preflight is for checks where there is
// no gateway.
func Verbs(own adminapi.Build, preflight Preflighter) []cli.Verb {
	return []cli.Verb{clustersVerb(), servicesVerb(), exportsVerb(), explainVerb(), checkVerb(own, preflight), getVerb(), profileVerb()}
}
