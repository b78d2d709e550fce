package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// compile compiles what packages depend on, and with -test their tests too. The go command prints which packages it compiles, but not
// how many that will be: at most all.
func compile(ctx context.Context, r *reporter, args []string) error {
	var packages bytes.Buffer
	list := append([]string{"list", "-deps", "-f", `{{if or .GoFiles .CgoFiles}}{{.Name}} {{.Standard}} {{.ImportPath}}{{end}}`}, args...)
	err := counted(ctx, r, &packages, list, func(line string) bool { return strings.HasPrefix(line, "go: downloading ") },
		func(n int) string { return fmt.Sprintf("%d modules downloaded (for the first time only)", n) })
	if err != nil {
		return err
	}
	build, most := []string{"build", "-v"}, 0
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") && arg != "-test" {
			build = append(build, arg)
		}
	}
	for line := range strings.Lines(packages.String()) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		standard, path, _ := strings.Cut(rest, " ")
		if name == "" || name == "main" || strings.Contains(path, " ") { // has only tests; would be linked; a variant for a test
			continue
		}
		if most++; standard == "false" { // the others are compiled as far as they are needed
			build = append(build, path)
		}
	}
	if !strings.Contains(packages.String(), " false ") {
		return nil // nothing but Go's own packages
	}
	return counted(ctx, r, io.Discard, build, func(line string) bool { return !strings.ContainsAny(line, " \t:#") },
		func(n int) string {
			return fmt.Sprintf("%d of at most %d packages compiled (for the first time only)", n, most)
		})
}

// counted runs the go command, counts lines that it writes to its standard error, and passes the others on.
func counted(ctx context.Context, r *reporter, out io.Writer, args []string, counts func(line string) bool, now func(n int) string) error {
	cmd := command(ctx, "go", args...)
	cmd.Stdout, cmd.Stderr = out, nil
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	n := 0
	r.start(15*time.Second, func() string { return now(n) })
	if err := cmd.Start(); err != nil {
		return err
	}
	for lines := bufio.NewReader(stderr); err == nil; {
		var line string
		line, err = lines.ReadString('\n')
		r.mu.Lock()
		switch {
		case line == "":
		case counts(strings.TrimSuffix(line, "\n")):
			n++
		default:
			fmt.Fprint(os.Stderr, line)
		}
		r.mu.Unlock()
	}
	return cmd.Wait()
}
