package page

import (
	"flag"
	"testing"

	"github.com/chromedp/chromedp"
)

var screenshots = flag.String("screenshots", "", "write screenshots to this `directory`")

// TestPage uses the page like an operator while clusters, services and replicas change.
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
		{"methods and names", (*world).refused}, {"search", (*world).search}, {"sort", (*world).sort},
		{"keyboard", (*world).keyboard}, {"dark and narrow", (*world).looks},
		{"names", (*world).names}, {"networks", (*world).networks},
		{"a cluster is lost and returns", (*world).clusterGoes}, {"screenshots", (*world).screenshots},
		{"hostile texts", (*world).hostileTexts}, {"hidden", (*world).hidden},
		{"the replica restarts", (*world).restarts}, {"503", (*world).unavailable},
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

// hostile would open a dialog, load an image, write control characters or reverse the text if the
// page did not escape it.
const hostile = "<script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u202e"
