package page

import (
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

var (
	screenshots = flag.String("screenshots", "", "write screenshots into this `folder`")
	long        = flag.Bool("long", false, "look at a page of 250 clusters and 10,000 services")
)

// TestPage looks at the page as somebody who operates the gateway does, while things happen.
func TestPage(t *testing.T) {
	w := newWorld(t)
	w.run(chromedp.Navigate(w.origin + "/"))
	w.shows("#connection", "Live")
	w.shows("#clusters tbody", "local", "✓ ready", "east", "north", "in-service")
	w.shows("#services tbody", "shop/web-federated", "local 3", "east 2", "north 1", "shop/cart-east mirrored")
	w.shows("#streams tbody", "web-federated.shop.svc.cluster.local:80", "endpoints")
	w.shows("#events tbody", "state east", "ready")
	w.shows("#summary", "3 all ready", "all fine")
	for _, step := range []struct {
		name string
		do   func(*world)
	}{
		{"methods", (*world).methods}, {"search", (*world).search}, {"keyboard", (*world).keyboard}, {"dark and narrow", (*world).looks},
		{"names", (*world).names}, {"networks", (*world).networks}, {"a cluster goes and returns", (*world).clusterGoes}, {"screenshots", (*world).screenshots},
		{"hostile texts", (*world).hostileTexts}, {"the gateway restarts", (*world).restarts},
	} {
		if !t.Run(step.name, func(t *testing.T) {
			defer func(outer *testing.T) { w.t = outer }(w.t)
			w.t = t
			step.do(w)
		}) {
			t.FailNow()
		}
	}
}

func (w *world) methods() {
	for _, path := range []string{"/", "/page/data", "/page/live", "/page/main.js"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
			request, err := http.NewRequestWithContext(w.t.Context(), method, w.origin+path, strings.NewReader("x"))
			w.must(err)
			answer, err := http.DefaultClient.Do(request)
			w.must(err)
			answer.Body.Close()
			if answer.StatusCode != http.StatusMethodNotAllowed {
				w.t.Errorf("%s %s: %s", method, path, answer.Status)
			}
		}
	}
}

func (w *world) search() {
	w.run(chromedp.SendKeys(chromedp.CSS("#services input[type=search]"), "CART"))
	w.holds("document.querySelectorAll('#services tbody tr').length === 1")
	w.shows("#services", "cart-east", "1 service of 2")
	w.run(chromedp.SendKeys(chromedp.CSS("#services input[type=search]"), "zzz"))
	w.shows("#services", "None of 2 services matches.")
	w.run(chromedp.Reload()) // the search is part of the address
	w.shows("#services", "None of 2 services matches.")
	w.run(chromedp.Navigate(w.origin + "/"))
	w.shows("#services tbody", "web-federated", "cart-east")
	w.noFaults(w.origin)
}

// keyboard opens the explanation of a service without a mouse, and closes it.
func (w *world) keyboard() {
	const on = "document.activeElement?.dataset?.focus === 'service shop/web-federated'"
	w.script("document.querySelector('#services [name=sort]').focus()")
	for range 10 {
		if w.is(on) {
			break
		}
		w.run(chromedp.KeyEvent(kb.Tab))
	}
	if !w.is(on) || w.is("getComputedStyle(document.activeElement).outlineStyle === 'none'") {
		w.t.Fatal("Tab does not lead to the service's button, or its focus can't be seen")
	}
	w.run(chromedp.KeyEvent(kb.Enter))
	w.holds("document.getElementById('explain').open")
	w.shows("#explanation", "served: 6 endpoints", "local", "east", "north", "10.1.0.1:8080", "served 6", "1 stream")
	if n := w.named(); n < 8 {
		w.t.Errorf("%d controls", n)
	}
	w.run(chromedp.SendKeys(chromedp.CSS("#explain input[name=node]"), w.shops["west"].Node()+kb.Enter))
	w.shows("#explanation", "on node west-node-a, in zone west-1a")
	w.run(chromedp.KeyEvent(kb.Escape))
	w.holds("!document.getElementById('explain').open")
	w.holds(on) // the focus is back
	w.run(chromedp.Click(chromedp.CSS("#services tbody tr:last-child button")))
	w.holds("document.getElementById('explain').open")
	w.run(chromedp.Click(chromedp.CSS("#explain .close")))
	w.holds("!document.getElementById('explain').open")
	w.noFaults(w.origin)
}

// looks: colours follow the viewer's preference, and at 320 pixels, which is 400% of 1280, nothing is cut off.
func (w *world) looks() {
	const light = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number).reduce((a, b) => a + b) > 600"
	for _, scheme := range []string{"light", "dark"} {
		w.scheme(scheme)
		if w.is(light) != (scheme == "light") {
			w.t.Errorf("the background does not suit %s", scheme)
		}
	}
	w.scheme("light")
	w.run(chromedp.EmulateViewport(320, 640))
	if w.is("document.documentElement.scrollWidth > 320") {
		w.t.Error("the page is wider than 320 pixels")
	}
	w.shows("#services tbody", "web-federated", "local 3")
	w.run(chromedp.EmulateViewport(1440, 900))
}

func (w *world) names() {
	if n := w.named(); n < 20 {
		w.t.Errorf("only %d controls", n)
	}
}

// clusterGoes: what changes shows without a reload, and a focus stays where it is.
func (w *world) clusterGoes() {
	w.script("window.notReloaded = true; document.querySelector('[data-focus=\"service shop/web-federated\"]').focus()")
	w.must(w.servers["east"].Kill())
	w.shows("#clusters tbody tr:first-child", "east", "! stale")
	w.shows("#summary", "1 stale")
	w.shows("#events tbody tr:first-child", "! state east", "stale: ")
	w.must(w.servers["east"].Restart(w.t.Context()))
	w.shows("#summary", "3 all ready")
	w.shows("#events tbody", "✓ state east ready — 2 times")
	_, err := w.shops["west"].Scale(w.t.Context(), "web", 5)
	w.must(err)
	w.shows("#services tbody", "local 5")
	if !w.is("window.notReloaded && document.activeElement.dataset.focus === 'service shop/web-federated'") {
		w.t.Error("the page was loaded again, or the focus is lost")
	}
	w.noFaults(w.origin)
}

// restarts: that the connection is lost shows, and once the gateway is back the page is live again without a reload.
func (w *world) restarts() {
	w.script(`window.states = []; new MutationObserver(() => states.push(document.getElementById("connection").dataset.state))
		.observe(document.getElementById("connection"), {attributes: true})`)
	w.must(w.gateway.Restart(w.t.Context()))
	w.holds("states.includes('lost') && states.at(-1) === 'live' && !document.body.classList.contains('lost')")
	w.shows("#clusters tbody", "local", "north")
	w.noFaults(w.origin, "ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_EMPTY_RESPONSE", "ERR_CONNECTION_RESET")
}

// screenshots writes those of the README, of a world in which something is wrong.
func (w *world) screenshots() {
	if *screenshots == "" {
		w.t.Log("none are asked for by -screenshots")
		return
	}
	west := w.shops["west"]
	w.annotate("web-federated", "isthmus.io/prefer", "local, any")
	w.annotate("web-federated", "isthmus.io/min-ready", "4")
	_, err := west.AnnotateLink(w.t.Context(), "north", map[string]string{"isthmus.io/cordon": "last-resort"})
	w.must(err)
	_, err = west.Scale(w.t.Context(), "web", 3)
	w.must(err)
	w.must(w.servers["east"].Kill())
	w.shows("#services tbody", "more tiers in use", "north 1 as shop/web last-resort")
	w.shows("#clusters tbody", "! stale")
	w.run(chromedp.EmulateViewport(1360, 800))
	w.script("document.activeElement.blur(); window.scrollTo(0, 0)")
	for scheme, name := range map[string]string{"light": "page.png", "dark": "page-dark.png"} {
		w.scheme(scheme)
		image := get(w.browser, chromedp.CaptureScreenshot())
		w.must(os.WriteFile(filepath.Join(*screenshots, name), image, 0o644))
	}
}
