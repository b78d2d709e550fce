package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// event is one line of go test -json.
type event struct {
	Action, Package, Test, Output string
}

// packageRun is a package whose tests run.
type packageRun struct {
	began time.Time
	over  int                         // tests that have ended
	texts map[string]*strings.Builder // output of those that have not
}

// tests prints of a run of go test what there is to see without -v, and that at once.
type tests struct {
	r       *reporter
	running map[string]*packageRun
}

// marker begins the lines of a test that are printed whether it fails or not.
const marker = "progress: "

func test(ctx context.Context, r *reporter, args []string) error {
	t := &tests{r: r, running: map[string]*packageRun{}}
	cmd := command(ctx, "go", append([]string{"test", "-json"}, args...)...)
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	r.start(30*time.Second, t.now)
	if err := cmd.Start(); err != nil {
		return err
	}
	t.read(out)
	return cmd.Wait()
}

func (t *tests) read(from io.Reader) {
	for lines := bufio.NewReader(from); ; {
		line, err := lines.ReadBytes('\n')
		var e event
		text := string(line) // what is no event is passed on
		if json.Unmarshal(line, &e) == nil && e.Action != "" {
			text = t.take(e)
		}
		t.r.mu.Lock()
		if text != "" {
			t.r.print(text)
		}
		t.r.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// take takes note of an event and returns what there is to print.
func (t *tests) take(e event) string {
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	p := t.running[e.Package]
	switch {
	case e.Action == "build-output":
		return e.Output
	case e.Package == "":
		return ""
	case e.Action == "start" || p == nil:
		p = &packageRun{began: time.Now(), texts: map[string]*strings.Builder{}}
		t.running[e.Package] = p
	}
	switch ended := e.Action == "pass" || e.Action == "fail" || e.Action == "skip"; {
	case e.Action == "output" && strings.HasPrefix(strings.TrimSpace(e.Output), marker):
		return fmt.Sprintf("%s: %s\n", t.r.name, strings.TrimPrefix(strings.TrimSpace(e.Output), marker))
	case e.Action == "output" && e.Test == "":
		if e.Output == "PASS\n" {
			return ""
		}
		return e.Output
	case e.Action == "output":
		if p.texts[e.Test] == nil {
			p.texts[e.Test] = &strings.Builder{}
		}
		p.texts[e.Test].WriteString(e.Output)
	case ended && e.Test != "":
		text := p.texts[e.Test]
		delete(p.texts, e.Test)
		if p.over++; e.Action != "pass" && text != nil { // nobody may take what is skipped for passed
			return text.String()
		}
	case ended:
		delete(t.running, e.Package)
		if e.Action == "fail" { // tests that had no end: of a panic, or the time that was given
			return unended(p.texts)
		}
	}
	return ""
}

func unended(texts map[string]*strings.Builder) string {
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		all.WriteString(texts[name].String())
	}
	return all.String()
}

// now lists which packages' tests are running.
func (t *tests) now() string {
	if len(t.running) == 0 {
		return "compiling and linking"
	}
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(t.running)) {
		p := t.running[name]
		texts = append(texts, fmt.Sprintf("%s has run %d tests in %v", name, p.over, time.Since(p.began).Round(time.Second)))
	}
	return strings.Join(texts, ", ")
}
