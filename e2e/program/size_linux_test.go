package program

import (
	"debug/elf"
	"os"
	"testing"
)

// maxSize is how large the gateway's binary may be, in bytes: a quarter of it are Kubernetes' typed clients, which leader election
// needs. If it grows at once by a third, something makes the linker keep all methods of all types: go build -ldflags=-dumpdep prints
// what reaches <ReflectMethod>.
const maxSize = 45_000_000

// TestSize: the gateway's binary is small, and needs no other file.
func TestSize(t *testing.T) {
	path, err := Isthmus.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s has %.1f MB", path, float64(info.Size())/1e6)
	if info.Size() > maxSize {
		t.Errorf("%s has %d bytes, of which %d are allowed", path, info.Size(), maxSize)
	}
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if libraries, err := file.ImportedLibraries(); err != nil || len(libraries) > 0 || file.Section(".interp") != nil {
		t.Errorf("%s needs %q, %v", path, libraries, err)
	}
}
