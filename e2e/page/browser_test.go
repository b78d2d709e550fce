package page

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"isthmus/e2e/harness"
)

// chromium returns the path of Chromium, or skips the test.
func chromium(t *testing.T) string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const missing = "there is no Chromium on this machine (chromium or google-chrome in $PATH), so the replica's " +
		"page is NOT tested"
	if os.Getenv("CI") == "true" {
		t.Fatal(missing + ": CI needs one")
	}
	t.Skip(missing)
	return ""
}

// browser is a page in Chromium with the requests and faults that the page has caused.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	requests []string // URLs of all requests since the last noFaults, including failed requests
	seen     int      // number of requests before the last noFaults
	faults   []string // dialogs, exceptions, console errors and CSP violations
}

func newBrowser(t *testing.T, path string) *browser {
	options := append(
		slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(path),
		chromedp.NoSandbox,
		chromedp.DisableGPU,
		chromedp.Flag("disable-background-networking", true),
		chromedp.WindowSize(1440, 900),
	)
	allocated, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	b := &browser{t: t}
	b.ctx, cancel = chromedp.NewContext(allocated, chromedp.WithListener(b.listen))
	t.Cleanup(cancel)
	// The first call starts the browser, which runs until its context ends. The context therefore
	// has no timeout.
	if err := chromedp.Do(b.ctx, call(accessibility.Enable, cdp.Empty{})); err != nil {
		t.Fatal(err)
	}
	return b
}

func call[P, R any](c cdp.Command[P, R], p P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, p)
		return err
	})
}

func (b *browser) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *cdppage.EventJavascriptDialogOpening:
		b.faults = append(b.faults, "a dialog opened: "+e.Message)
	case *runtime.EventExceptionThrown:
		text, err := json.Marshal(e.ExceptionDetails)
		b.faults = append(b.faults, fmt.Sprintf("an exception: %s %v", text, err))
	case *runtime.EventConsoleAPICalled:
		text, err := json.Marshal(e.Args)
		b.faults = append(b.faults, fmt.Sprintf("console.%s: %s %v", e.Type, text, err))
	case *log.EventEntryAdded: // network errors and CSP violations
		b.faults = append(
			b.faults,
			fmt.Sprintf("%s %s: %s %s", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL),
		)
	}
}

// noFaults checks that there were no faults except those that contain one of the given strings, and
// that all requests went to origin. It then resets both records.
func (b *browser) noFaults(origin string, but ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.faults {
		if !slices.ContainsFunc(but, func(text string) bool { return strings.Contains(f, text) }) {
			b.t.Error(f)
		}
	}
	if b.seen += len(b.requests); b.seen == 0 {
		b.t.Error("no request is recorded: the test cannot check their targets")
	}
	for _, url := range b.requests {
		if !strings.HasPrefix(url, origin) {
			b.t.Errorf("a request to another server: %s", url)
		}
	}
	b.faults, b.requests = nil, nil
}

func (b *browser) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

func get[T any](b *browser, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

func (b *browser) script(text string) {
	b.t.Helper()
	get(b, chromedp.Evaluate[bool](text+"; true"))
}

func (b *browser) text(selector string) string {
	b.t.Helper()
	return get(b, chromedp.Evaluate[string](fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector)))
}

func (b *browser) is(condition string) bool {
	b.t.Helper()
	return get(b, chromedp.Evaluate[bool]("!!("+condition+")"))
}

// shows waits until an element contains all of the given strings.
func (b *browser) shows(selector string, texts ...string) {
	b.t.Helper()
	err := harness.Poll(b.t.Context(), time.Minute, 100*time.Millisecond, func() error {
		got := strings.Join(strings.Fields(b.text(selector)), " ")
		for _, text := range texts {
			if !strings.Contains(got, text) {
				return fmt.Errorf("%s shows %[3]q, want %[2]q", selector, text, got)
			}
		}
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *browser) holds(condition string) {
	b.t.Helper()
	if err := harness.Poll(b.t.Context(), 30*time.Second, 50*time.Millisecond, func() error {
		if !b.is(condition) {
			return fmt.Errorf("not: %s", condition)
		}
		return nil
	}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *browser) scheme(name string) {
	b.t.Helper()
	b.run(call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	}))
}

// named checks that every interactive element has an accessible name, and returns the number of
// these elements.
func (b *browser) named() (n int) {
	b.t.Helper()
	tree := get(b, func(ctx context.Context, t *chromedp.Target) (accessibility.GetFullAXTreeResult, error) {
		return cdp.Call(ctx, t, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	})
	for _, node := range tree.Nodes {
		if node.Ignored || node.Role == nil {
			continue
		}
		switch role := strings.Trim(string(node.Role.Value), `"`); role {
		case "button", "link", "textbox", "searchbox", "combobox", "table", "dialog", "search", "navigation", "heading":
			n++
			if node.Name == nil || strings.Trim(string(node.Name.Value), `" `) == "" {
				b.t.Errorf("a %s has no name: node %d", role, node.BackendDOMNodeID)
			}
		}
	}
	return n
}
