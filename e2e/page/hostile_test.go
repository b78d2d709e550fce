package page

import (
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"isthmus/e2e/harness/kube"
)

// hostile is what a text must not do: open a dialog, load something, write into the console, or hide what follows.
const hostile = "<script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u202e"

// hostileTexts come from Services, links and clusters, and are shown as they are.
func (w *world) hostileTexts() {
	w.annotate("cart-east", "isthmus.io/prefer", hostile)
	link := kube.Link("evil", []byte("apiVersion: v1\nkind: Config\n"+`current-context: "<img src=x onerror=alert(3)>"`))
	w.must(w.shops["west"].Apply(w.t.Context(), link))
	w.shows("#services tbody", "wrong annotation", "<script>alert(1)</script>")
	w.shows("#clusters tbody", "evil", "✗ rejected")
	w.shows("#events tbody", "evil", "can't be used")
	w.run(chromedp.Click(chromedp.CSS("[data-focus='service shop/cart-east']")))
	w.shows("#explanation", "<script>alert(1)</script>")
	w.run(chromedp.SendKeys(chromedp.CSS("#explain input[name=namespace]"), `"<img src=x onerror=alert(4)>`+kb.Enter))
	w.shows("#explanation", "<img src=x onerror=alert(4)>")
	w.run(chromedp.Click(chromedp.CSS("#explain .close")))
	w.onlyText()
	w.noFaults(w.origin)
	w.must(w.shops["west"].Unlink(w.t.Context(), "evil"))
	w.annotate("cart-east", "isthmus.io/prefer", "")
}

// onlyText checks that no text has become markup, and none has control characters.
func (w *world) onlyText() {
	w.t.Helper()
	if w.is("document.querySelectorAll('main script, main img, #explain script, #explain img').length > 0") {
		w.t.Error("a text has become markup")
	}
	if w.is(`/[\u0000-\u0008\u000b-\u001f\u202a-\u202e]/.test(document.body.textContent)`) {
		w.t.Error("a control character has come through")
	}
}
