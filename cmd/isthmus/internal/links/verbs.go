package links

import "isthmus/cmd/isthmus/internal/cli"

// Verbs returns all verbs of this package, in the order of the program's overview.
func Verbs() []cli.Verb { return []cli.Verb{linkVerb(), unlinkVerb(), cordonVerb(), uncordonVerb()} }
