package cases

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/txtar"

	"isthmus/e2e/proxy"
)

// Extension is the file name extension of cases.
const Extension = ".txtar"

type Case struct {
	Name  string
	About string // what the case checks

	EveryServer bool     // every Destination server must pass the case, not only Isthmus
	Alone       bool     // the case must not run in parallel with other cases in the same clusters
	Restarts    bool     // the case begins with a restart of the replica
	Linked      bool     // the case has links; always set for a case that is not Alone
	Proves      []string // IDs of the behaviors that the case proves

	steps []step
}

type step struct {
	pos  string // FILE:LINE
	text string
	do   action
}

// section is a named part of a case file after the script.
type section struct {
	text string
	line int // line number of the text in the case file
}

func Load(path string) (*Case, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("case: %w", err)
	}
	return Parse(path, data)
}

// Parse parses a case. The case is named after its path. The error lists every mistake with its
// line number.
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
		line++ // skip the marker
		if _, ok := p.sections[f.Name]; ok {
			p.errs = append(p.errs, fmt.Errorf("%s:%d: duplicate section %q", path, line-1, f.Name))
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
		case key == "feature", key == "peer": // only informative
		case key == "proves":
			p.c.Proves = strings.Fields(value)
		case comment == "for: every server":
			p.c.EveryServer = true
		case key == "for":
			p.errs = append(p.errs, fmt.Errorf("%s: %s: the only possible value is \"every server\"", p.file, comment))
		case p.c.About == "":
			p.c.About = comment
		}
	}
}

// parser converts a script to steps and collects all mistakes.
type parser struct {
	file     string
	c        *Case
	sections map[string]section
	streams  map[string]bool // ids of the streams opened so far
	index    string          // value of $I in a repeated section
	depth    int             // nesting depth of repeated sections
	errs     []error
}

// script parses a script. The line number of its first line is from.
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

// company records whether the case can run in parallel with other cases. Such a case only writes
// objects with unique names, and links that it shares with the other cases. It must write these
// links before it opens streams.
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

// section returns the text of a section. In a repeated section, $I is replaced by its value.
func (p *parser) section(name string) (section, error) {
	s, ok := p.sections[name]
	if !ok {
		return s, fmt.Errorf("no section %q", name)
	}
	if p.index != "" {
		s.text = strings.ReplaceAll(s.text, "$I", p.index)
	}
	return s, nil
}

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

// command parses one command. A repeat command adds its commands as steps and returns no action.
func (p *parser) command(words []string) (action, error) {
	name, args := words[0], words[1:]
	type syntax struct {
		parse    func(*parser, []string) (action, error)
		min      int
		max      int // -1 means unlimited
		synopsis string
	}
	commands := map[string]syntax{
		"apply":          {parseApply, 2, 2, "CLUSTER SECTION"},
		"delete":         {parseDelete, 3, 4, "CLUSTER KIND [NS/]NAME [grace=SECONDS]"},
		"pod":            {parseObject(podObject), 3, -1, "CLUSTER [NS/]NAME IP[,IP] [options]"},
		"svc":            {parseObject(svcObject), 3, -1, "CLUSTER [NS/]NAME PORTS [options]"},
		"export":         {parseExport, 2, -1, "CLUSTER [NS/]NAME [options]"},
		"mcs":            {parseMCS, 2, -1, "both|v1alpha1|unserved|none CLUSTER..."},
		"slice":          {parseSlice, 4, -1, "CLUSTER [NS/]NAME SERVICE PORTS [ENDPOINT...] [options]"},
		"gateway":        {parseObject(gatewayObject), 3, -1, "CLUSTER [NS/]NAME HOSTS [options]"},
		"answers":        {parseAnswers, 2, 2, "IP:PORT CODE|none"},
		"unasked":        {parseUnasked, 1, 1, "IP:PORT"},
		"ew":             {parseObject(ewObject), 3, -1, "CLUSTER [NS/]NAME IP[,IP] [options]"},
		"link":           {parseLink, 3, -1, "REMOTE as NAME [options]"},
		"relink":         {parseLink, 3, -1, "REMOTE as NAME [options]"},
		"unlink":         {parseUnlink, 1, -1, "NAME [options]"},
		"settle":         {parseSettle, 0, 1, "[DURATION]"},
		"repeat":         {parseRepeat, 2, 2, "N SECTION"},
		"get":            {parseSubscribe(proxy.Get), 2, 3, "ID AUTHORITY [TOKEN]"},
		"profile":        {parseSubscribe(proxy.GetProfile), 2, 3, "ID AUTHORITY [TOKEN]"},
		"reconnect":      {onStream((*stream).reconnect), 1, 1, "ID"},
		"close":          {onStream((*stream).close), 1, 1, "ID"},
		"stall":          {onStream((*stream).stall), 1, 1, "ID"},
		"unstall":        {onStream((*stream).unstall), 1, 1, "ID"},
		"mark":           {onStream((*stream).mark), 1, 1, "ID"},
		"expect":         {parseExpect, 2, 2, "ID SECTION"},
		"expect-addrs":   {parseExpectAddrs, 1, -1, "ID [ADDRESS...]"},
		"expect-count":   {parseExpectCount, 2, 2, "ID N..M"},
		"first":          {parseFirst, 2, -1, "ID KIND [ADDRESS...]"},
		"expect-error":   {parseExpectError, 2, 3, "ID CODE [REGEX]"},
		"expect-missing": {onStream((*stream).expectMissing), 1, 1, "ID"},
		"no-flap":        {parseNoFlap, 1, -1, "ID [ADDRESS...]"},
		"parts":          {parseParts, 3, 3, "ID left|joined N..M"},
		"quiet":          {parseQuiet, 2, 2, "ID DURATION"},
		"metric":         {parseMetric, 2, 2, "REGEX VALUE"},
		"page":           {parsePage, 2, 2, "PATH REGEX"},
		"isthmus":        {parseIsthmus, 1, -1, "WORD..."},
		"fails":          {parseFails, 2, -1, "CODE WORD..."},
		"shows":          {parseShows, 2, -1, "REGEX WORD..."},
		"stdout":         {parseOutput("standard output", true), 1, 1, "REGEX"},
		"no-stdout":      {parseOutput("standard output", false), 1, 1, "REGEX"},
		"stderr":         {parseOutput("standard error", true), 1, 1, "REGEX"},
		"owns":           {parseOwns, 3, 3, "CLUSTER KIND [NS/]NAME"},
		"expect-svc": {
			parseExpectObject("Service", readService, serviceFields...), 2, -1, "CLUSTER [NS/]NAME [options]",
		},
		"expect-import": {
			parseExpectObject("ServiceImport", readImport, importFields...), 2, -1, "CLUSTER [NS/]NAME [options]",
		},
		"expect-export": {
			parseExpectObject("ServiceExport", readExport, exportFields...), 2, -1, "CLUSTER [NS/]NAME [options]",
		},
		"patch":           {parsePatch, 4, 4, "CLUSTER KIND[/status] [NS/]NAME JSON"},
		"expect-slices":   {parseExpectSlices, 4, 4, "CLUSTER NS SERVICE SECTION"},
		"within":          {parseWithin, 2, -1, "DURATION EXPECTATION..."},
		"stop":            {parseFault("stop"), 1, 1, "CLUSTER"},
		"start":           {parseFault("start"), 1, 1, "CLUSTER"},
		"pause":           {parseFault("pause"), 1, 1, "CLUSTER"},
		"resume":          {parseFault("resume"), 1, 1, "CLUSTER"},
		"restart-gateway": {parseRestart, 0, -1, "[FLAG|NAME=VALUE...]"},
		"another-gateway": {parseAnother, 1, -1, "CLUSTER [FLAG...]"},
	}
	c, ok := commands[name]
	if !ok {
		return nil, fmt.Errorf("unknown command")
	}
	if len(args) < c.min || c.max >= 0 && len(args) > c.max {
		return nil, fmt.Errorf("wrong number of words, want: %s %s", name, c.synopsis)
	}
	switch first, _, _ := strings.Cut(c.synopsis, " "); first {
	case "ID":
		if opens := name == "get" || name == "profile"; !opens && !p.streams[args[0]] {
			return nil, fmt.Errorf("stream %q is not open yet", args[0])
		}
	case "CLUSTER":
		if err := knownCluster(args[0]); err != nil {
			return nil, err
		}
	}
	return c.parse(p, args)
}

// named splits [NS/]NAME. The default namespace is that of the case.
func (p *parser) named(word string) (namespace, name string) {
	if namespace, name, ok := strings.Cut(word, "/"); ok {
		return namespace, name
	}
	return p.c.Name, word
}
