package main

import (
	"context"

	"isthmus/clusterstore/check"
	"isthmus/cmd/isthmus/internal/client"
)

// checkFromHere runs the checks of a gateway where there is none: from this machine, with a
// user's credentials and those of the links.
func checkFromHere(ctx context.Context, p client.Preflight) []client.CheckResult {
	links, err := check.ReadLinks(ctx, p.Config, p.Namespace)
	results := check.Run(ctx, check.Config{
		Namespace: p.Namespace, Local: p.Config, Account: p.Namespace + "/" + p.Account, Links: links, LinksErr: err, Preflight: true,
	})
	list := make([]client.CheckResult, 0, len(results))
	for _, r := range results {
		list = append(list, client.CheckResult{Section: r.Section, Check: r.Check, Object: r.Object, Level: string(r.Level), Text: r.Text, Hint: r.Hint})
	}
	return list
}
