package cases

import (
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"isthmus/e2e/harness"
	"isthmus/e2e/proxy"
)

// action is what a command does when the case runs.
type action func(context.Context, *run) error

const (
	settleTime = 300 * time.Millisecond
	maxSteps   = 100_000 // of a case, repetitions included
)

// command parses one command. A repeat has no action of its own: its commands become steps.
func (p *parser) command(words []string) (action, error) {
	name, args := words[0], words[1:]
	type syntax struct {
		parse    func(*parser, []string) (action, error)
		min      int
		max      int // -1: any number
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
		return nil, fmt.Errorf("there is no such command")
	}
	if len(args) < c.min || c.max >= 0 && len(args) > c.max {
		return nil, fmt.Errorf("wrong number of words, it is: %s %s", name, c.synopsis)
	}
	switch first, _, _ := strings.Cut(c.synopsis, " "); first {
	case "ID":
		if opens := name == "get" || name == "profile"; !opens && !p.streams[args[0]] {
			return nil, fmt.Errorf("there is no stream %q yet", args[0])
		}
	case "CLUSTER":
		if err := knownCluster(args[0]); err != nil {
			return nil, err
		}
	}
	return c.parse(p, args)
}

func parseSettle(_ *parser, args []string) (action, error) {
	d := settleTime
	if len(args) == 1 {
		var err error
		if d, err = duration(args[0]); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, _ *run) error { return harness.Pause(ctx, d) }, nil
}

func duration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is no duration", text)
	}
	return d, nil
}

func parseRepeat(p *parser, args []string) (action, error) {
	n, err := strconv.Atoi(args[0])
	const limit = 10_000
	if err != nil || n < 0 || n > limit {
		return nil, fmt.Errorf("%q is no number of times up to %d", args[0], limit)
	}
	if p.depth == 3 {
		return nil, fmt.Errorf("sections are repeated in each other too deeply")
	}
	outer := p.index
	p.depth++
	defer func() { p.depth--; p.index = outer }()
	for i := range n {
		p.index = strconv.Itoa(i)
		s, err := p.section(args[1])
		if err != nil {
			return nil, err
		}
		before := len(p.errs)
		p.script(s.text, s.line)
		if len(p.errs) > before {
			break // the other rounds have the same mistakes
		}
		if len(p.c.steps) > maxSteps {
			return nil, fmt.Errorf("the case has more than %d commands", maxSteps)
		}
	}
	return nil, nil
}

func parseSubscribe(kind proxy.Kind) func(*parser, []string) (action, error) {
	return func(p *parser, args []string) (action, error) {
		p.streams[args[0]] = true
		token := ""
		if len(args) == 3 {
			token = args[2]
		}
		return func(ctx context.Context, r *run) error { return r.subscribe(ctx, kind, args[0], args[1], token) }, nil
	}
}

// onStream is for commands that have nothing but a stream's id.
func onStream(do func(*stream, context.Context) error) func(*parser, []string) (action, error) {
	return func(_ *parser, args []string) (action, error) {
		return func(ctx context.Context, r *run) error { return do(r.streams[args[0]], ctx) }, nil
	}
}

func parseExpect(p *parser, args []string) (action, error) {
	want, err := p.jsonSection(args[1])
	return func(ctx context.Context, r *run) error { return r.streams[args[0]].expect(ctx, want) }, err
}

func parseExpectAddrs(p *parser, args []string) (action, error) {
	want, err := addresses(args[1:])
	slices.SortFunc(want, netip.AddrPort.Compare)
	return func(ctx context.Context, r *run) error { return r.streams[args[0]].expectAddrs(ctx, want) }, err
}

func parseFirst(p *parser, args []string) (action, error) {
	kinds := []string{"add", "remove", "no_endpoints(true)", "no_endpoints(false)", "profile"}
	if !slices.Contains(kinds, args[1]) {
		return nil, fmt.Errorf("%q is none of %q", args[1], kinds)
	}
	want, err := addresses(args[2:])
	slices.SortFunc(want, netip.AddrPort.Compare)
	return func(ctx context.Context, r *run) error { return r.streams[args[0]].first(ctx, args[1], want) }, err
}

func parseExpectError(p *parser, args []string) (action, error) {
	code, ok := codeByName(args[1])
	if !ok {
		return nil, fmt.Errorf("%q is no gRPC code", args[1])
	}
	text := ""
	if len(args) == 3 {
		text = args[2]
	}
	message, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, r *run) error { return r.streams[args[0]].expectError(ctx, code, message) }, nil
}

func codeByName(name string) (codes.Code, bool) {
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		if c.String() == name {
			return c, true
		}
	}
	return 0, false
}

func parseNoFlap(p *parser, args []string) (action, error) {
	addrs, err := addresses(args[1:])
	return func(_ context.Context, r *run) error { return r.streams[args[0]].Flapped(addrs...) }, err
}

func parseQuiet(p *parser, args []string) (action, error) {
	d, err := duration(args[1])
	return func(ctx context.Context, r *run) error { return r.streams[args[0]].quiet(ctx, d) }, err
}

func parseRestart(p *parser, args []string) (action, error) {
	return func(ctx context.Context, r *run) error { return r.restartGateway(ctx, args) }, nil
}

func parseFault(command string) func(*parser, []string) (action, error) {
	return func(p *parser, args []string) (action, error) {
		return func(ctx context.Context, r *run) error { return r.fault(ctx, command, args[0]) }, nil
	}
}

// clusterNames are the clusters that a case may name; the gateway is local to the first.
var clusterNames = []string{"west", "east", "north"}

func knownCluster(name string) error {
	if !slices.Contains(clusterNames, name) {
		return fmt.Errorf("%q is none of the clusters %q", name, clusterNames)
	}
	return nil
}
