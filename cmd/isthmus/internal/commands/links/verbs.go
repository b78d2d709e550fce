package links

import "isthmus/cmd/isthmus/internal/cli"

// Verbs returns all verbs of this package, in the order of the program's overview.
func All() []cli.Command {
	return []cli.Command{linkCommand(), unlinkCommand(), cordonCommand(), uncordonCommand()}
}
