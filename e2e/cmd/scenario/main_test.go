package main

import (
	"bytes"
	"path/filepath"
	"regexp"
	"testing"
)

func TestList(t *testing.T) {
	files, err := filepath.Glob("../../testdata/cases/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-list", "../../testdata/cases"}, &out); err != nil {
		t.Fatal(err)
	}
	listed := regexp.MustCompile(`(?m)^[* ] [a-z0-9-]+ +[^ ].*\.$`).FindAllString(out.String(), -1)
	if len(files) == 0 || len(listed) != len(files) {
		t.Errorf("%d of %d cases are listed:\n%s", len(listed), len(files), out.String())
	}
}
