package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestWorkloadProofs checks the table of testdata/README.md about slices for ExternalWorkloads as TestProofs does the others.
func TestWorkloadProofs(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := proofs(t, string(text), "### The rows about slices for ExternalWorkloads")
	if len(rows) != 39 {
		t.Errorf("%d rows instead of 39", len(rows))
	}
	for i, row := range rows {
		if want := fmt.Sprintf("EW-%02d", i+1); row.name != want {
			t.Errorf("row %s instead of %s", row.name, want)
		}
		for _, by := range row.by {
			if err := exists(by); err != nil {
				t.Errorf("%s: %v", row.name, err)
			}
		}
	}
}
