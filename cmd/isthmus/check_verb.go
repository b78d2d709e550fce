package main

import (
	"context"

	"isthmus/clusterstore/check"
	"isthmus/cmd/isthmus/internal/client"
	"isthmus/internal/adminapi"
)

// checkFromHere runs the checks of a gateway where there is none: from this machine, with a
// user's credentials and those of the links.
func checkFromHere(ctx context.Context, p client.Preflight) []adminapi.CheckResult {
	links, err := check.ReadLinks(ctx, p.API, p.Namespace)
	return check.Run(ctx, check.Config{
		Namespace: p.Namespace, Local: p.Config, Account: p.Namespace + "/" + p.Account, Links: links, LinksErr: err, Preflight: true, Pre: p.Pre,
	})
}
