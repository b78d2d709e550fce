package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// rootsModule has Mozilla's root certificates, as Go's own maintainers take them from Mozilla.
const rootsModule = "golang.org/x/crypto/x509roots/fallback"

// roots returns Mozilla's root certificates as PEM. Those that Mozilla trusts in part only, such as for certificates of
// before a date, are left out: a file can't say so.
func roots() []byte {
	var text bytes.Buffer
	fmt.Fprintf(&text, "# Mozilla's root certificates, by %s %s\n", rootsModule, moduleVersion(rootsModule))
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			text.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return text.Bytes()
}

// rootsLicence returns the licence that the root certificates come with.
func rootsLicence(ctx context.Context) ([]byte, error) {
	dir, err := output(ctx, "go", "-C", "e2e", "list", "-m", "-f", "{{.Dir}}", rootsModule)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, "LICENSE"))
}

// moduleVersion returns the version of a module that this program is built with.
func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return "of an unknown version"
}
