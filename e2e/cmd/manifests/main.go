package main

import (
	"fmt"
	"os"
)

const usage = `usage: manifests DIR [NAME=VALUE...]

DIR is the folder with all the manifests. An empty VALUE is the default.

  FOLDER=install      which of them: install, linkerd, link, monitoring or dashboards
  WITH=A,B            components of it, as podmonitor and policy of install
  IMAGE=isthmus:dev   the image, with its registry, and a tag or a digest
  VERSION=v1          what labels name, and the image's tag unless IMAGE has one or a digest
  NAMESPACE=linkerd   the namespace; by default that of the folder
  LINKERD=FILE        for FOLDER=linkerd: Linkerd's own manifest, as helm template writes it
  RUNBOOKS=URL        for FOLDER=monitoring: where your people read docs/operations.md;
                    each alert gets a runbook_url with its heading there`

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	text, err := build(os.DirFS(os.Args[1]), os.Args[2:])
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
}
