package cases

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/txtar"
)

// Extension is that of case files.
const Extension = ".txtar"

// Case is one parsed case.
type Case struct {
	Name  string
	About string // what the case checks

	EveryServer bool     // not only Isthmus has to pass it
	Alone       bool     // no other case may run at the same time in the same clusters
	Restarts    bool     // it begins by restarting the gateway
	Linked      bool     // it has links; those that are not Alone have all the same
	Proves      []string // the IDs of behaviours

	steps []step
}

// step is one command of a script.
type step struct {
	pos  string // FILE:LINE
	text string
	do   action
}

// section is a part of the archive after the script.
type section struct {
	text string
	line int // of the file, where its text begins
}

// Load reads and parses a case's file.
func Load(path string) (*Case, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("case: %w", err)
	}
	return Parse(path, data)
}

// Parse parses a case; path is where it comes from and gives it its name. The error names every mistake with its
// line.
func Parse(path string, data []byte) (*Case, error) {
	name := strings.TrimSuffix(filepath.Base(path), Extension)
	text := strings.ReplaceAll(string(data), "$NS", name)
	archive := txtar.Parse([]byte(text))
	p := &parser{
		file:     path,
		c:        &Case{Name: name},
		sections: map[string]section{},
		streams:  map[string]bool{},
	}
	line := strings.Count(string(archive.Comment), "\n") + 1
	for _, f := range archive.Files {
		line++ // the marker
		if _, ok := p.sections[f.Name]; ok {
			p.errs = append(p.errs, fmt.Errorf("%s:%d: there are two sections %q", path, line-1, f.Name))
		}
		p.sections[f.Name] = section{text: string(f.Data), line: line}
		line += strings.Count(string(f.Data), "\n")
	}
	p.header(string(archive.Comment))
	p.script(string(archive.Comment), 1)
	if err := errors.Join(p.errs...); err != nil {
		return nil, err
	}
	return p.c, nil
}

// header reads the comments that describe the case.
func (p *parser) header(script string) {
	for line := range strings.Lines(script) {
		comment, ok := strings.CutPrefix(strings.TrimSpace(line), "#")
		if !ok {
			continue
		}
		comment = strings.TrimSpace(comment)
		key, value, _ := strings.Cut(comment, ":")
		value = strings.TrimSpace(value)
		switch {
		case key == "feature", key == "peer": // for readers
		case key == "proves":
			p.c.Proves = strings.Fields(value)
		case comment == "for: every server":
			p.c.EveryServer = true
		case key == "for":
			p.errs = append(p.errs, fmt.Errorf("%s: %s: it can only be for every server", p.file, comment))
		case p.c.About == "":
			p.c.About = comment
		}
	}
}

// parser turns a script into steps and collects the mistakes.
type parser struct {
	file     string
	c        *Case
	sections map[string]section
	streams  map[string]bool // ids that have been opened so far
	index    string          // the value of $I, in a repeated section
	depth    int             // of repeated sections
	errs     []error
}

// script parses lines, of which the first is the file's line from.
func (p *parser) script(text string, from int) {
	number := from - 1
	for line := range strings.Lines(text) {
		number++
		pos := fmt.Sprintf("%s:%d", p.file, number)
		line = strings.TrimRight(line, "\r\n")
		words, err := split(line)
		if err != nil {
			p.errs = append(p.errs, fmt.Errorf("%s: %w", pos, err))
			continue
		}
		if len(words) == 0 {
			continue
		}
		p.company(words)
		do, err := p.command(words)
		if err != nil {
			p.errs = append(p.errs, fmt.Errorf("%s: %s: %w", pos, words[0], err))
		}
		if do != nil {
			p.c.steps = append(p.c.steps, step{pos: pos, text: strings.TrimSpace(line), do: do})
		}
	}
}

// company notes whether other cases may run beside this one. They may if all that it writes has
// names of its own, except for links, of which each cluster has one for all, and if it has these
// before it opens streams.
func (p *parser) company(words []string) {
	p.c.Restarts = p.c.Restarts || len(p.c.steps) == 0 && words[0] == "restart-gateway"
	switch words[0] {
	case "link":
		plain := len(words) == 4 && words[1] == words[3]
		p.c.Alone, p.c.Linked = p.c.Alone || !plain || len(p.streams) > 0, true
	case "relink",
		"unlink",
		"gateway",
		"answers",
		"metric",
		"page",
		"isthmus",
		"fails",
		"restart-gateway",
		"another-gateway",
		"mcs",
		"stop",
		"start",
		"pause",
		"resume":
		p.c.Alone = true
	}
}

// section returns a section's text, with $I replaced where it has a value.
func (p *parser) section(name string) (section, error) {
	s, ok := p.sections[name]
	if !ok {
		return s, fmt.Errorf("there is no section %q", name)
	}
	if p.index != "" {
		s.text = strings.ReplaceAll(s.text, "$I", p.index)
	}
	return s, nil
}

// jsonSection returns a section's JSON.
func (p *parser) jsonSection(name string) (any, error) {
	s, err := p.section(name)
	if err != nil {
		return nil, err
	}
	var v any
	if err := json.Unmarshal([]byte(s.text), &v); err != nil {
		return nil, fmt.Errorf("section %q (line %d): %w", name, s.line, err)
	}
	return v, nil
}
