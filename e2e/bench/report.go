package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
)

// Report is a run, as it is kept.
type Report struct {
	Machine Machine
	Scale   Scale
	Results []Result
}

// Machine is what was measured on.
type Machine struct {
	Cores    int
	OS, Arch string
	Go       string
}

// NewReport returns the report of a run on this machine.
func NewReport(cfg Config, results []Result) *Report {
	return &Report{Machine: thisMachine(), Scale: cfg.Scale, Results: results}
}

func thisMachine() Machine {
	return Machine{Cores: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version()}
}

// Write keeps the report as JSON.
func (r *Report) Write(path string) error {
	return writeJSON(path, r)
}

// Write keeps the growth as JSON.
func (g *Growth) Write(path string) error { return writeJSON(path, g) }

func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "\t")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// Print writes the table for people, and why a trial was not made.
func (r *Report) Print(w io.Writer) error {
	if err := WriteTable(w, Rows(r.Results)); err != nil {
		return err
	}
	for _, t := range r.Results {
		if t.Absent != "" {
			fmt.Fprintf(w, "%s: not served: %s\n", t.Trial, t.Absent)
		}
	}
	return nil
}

// Err returns which targets were missed.
func (r *Report) Err() error {
	var errs []error
	for _, row := range Rows(r.Results) {
		if row.Verdict() == Over {
			errs = append(errs, fmt.Errorf("over target: %s: %s", row.Trial, row.Label))
		}
	}
	return errors.Join(errs...)
}
