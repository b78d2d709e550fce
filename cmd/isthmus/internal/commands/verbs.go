package commands

import "isthmus/cmd/isthmus/internal/cli"

// Verbs returns all verbs of this package, in the order of the program's
// overview. preflight is for checks where there is no gateway.
func All(preflight Preflighter) []cli.Command {
	return []cli.Command{
		clustersCommand(), servicesCommand(), exportsCommand(), explainCommand(), checkCommand(preflight), getCommand(), profileCommand(),
	}
}
