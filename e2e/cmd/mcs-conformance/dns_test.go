//go:build linux

package main

import (
	"strings"
	"testing"
)

// TestDocumentedBlock checks that docs/mcs.md contains a Corefile block that works with CoreDNS and
// to which credentials can be added.
func TestDocumentedBlock(t *testing.T) {
	t.Chdir("../../..")
	block, err := documentedBlock()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(block, "kubernetes cluster.local clusterset.local ") ||
		!strings.Contains(block, "{\n    multicluster clusterset.local\n}") {
		t.Errorf("the block is %q", block)
	}
}
