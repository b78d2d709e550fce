package manifests

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"sigs.k8s.io/mcs-api/config/crd"
)

//go:generate go test -run ^TestMCSCRDs$ . -update

var update = flag.Bool("update", false, "write the files that are generated from others")

// TestMCSCRDs: install/mcs-crds has the definitions of the version of the MCS-API in go.mod.
func TestMCSCRDs(t *testing.T) {
	for name, want := range map[string][]byte{
		"serviceexports": crd.ServiceExportCRD,
		"serviceimports": crd.ServiceImportCRD,
	} {
		path := "install/mcs-crds/" + name + ".yaml"
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Error(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the MCS-API has (%v): make generate", path, err)
		}
	}
}
