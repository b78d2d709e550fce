package page

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
	"isthmus/e2e/shop"
)

// world consists of the shop in three clusters, an Isthmus replica and its page.
type world struct {
	*browser
	shops   map[string]*shop.Cluster
	servers map[string]*harness.Cluster
	gateway *harness.Replica
	origin  string
}

func newWorld(t *testing.T) *world {
	w := &world{
		browser: newBrowser(t, chromium(t)),
		shops:   map[string]*shop.Cluster{},
		servers: map[string]*harness.Cluster{},
	}
	var configs []harness.ClusterConfig
	names := []string{"west", "east", "north"}
	for _, name := range names {
		configs = append(
			configs,
			harness.ClusterConfig{Name: name, Dir: filepath.Join(t.TempDir(), name), Controllers: shop.Controllers},
		)
	}
	servers, err := harness.StartClusters(t.Context(), configs...)
	w.must(err)
	var deployed sync.WaitGroup
	for i, s := range servers {
		w.atEnd(s.Close)
		c, err := shop.New(s.Name(), byte(i+1), s.REST())
		w.must(err)
		w.shops[s.Name()], w.servers[s.Name()] = c, s
		w.background(c)
		deployed.Go(func() {
			if err := c.Deploy(t.Context(), 3-i, 2); err != nil {
				t.Error(err)
			}
		})
	}
	deployed.Wait()
	west := w.shops["west"]
	w.must(west.Mirror(t.Context()))
	access, err := west.GatewayAccess(t.Context())
	w.must(err)
	for _, name := range names[1:] {
		kubeconfig, err := w.shops[name].RemoteAccess(t.Context(), "remote-access-token-1")
		w.must(err)
		w.must(west.Link(t.Context(), name, kubeconfig))
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	w.must(os.WriteFile(path, access, 0o600))
	w.gateway, err = harness.StartReplica(t.Context(), harness.ReplicaConfig{
		Kubeconfig: path,
		Env:        []string{"ISTHMUS_TEST_LOOPBACK_GATEWAYS=true"},
		Args:       []string{"-shutdown-delay=0s", "-drain=0s"},
	})
	w.must(err)
	w.atEnd(w.gateway.Stop)
	w.origin = "http://" + w.gateway.MetricsAddr()
	w.subscribe("web-federated.shop.svc.cluster.local:80")
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) atEnd(do func() error) {
	w.t.Cleanup(func() {
		if err := do(); err != nil {
			w.t.Error(err)
		}
	})
}

func (w *world) background(c *shop.Cluster) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	w.t.Cleanup(func() {
		stop()
		<-done
		c.Close()
	})
}

func (w *world) subscribe(authority string) {
	conn, err := proxy.Dial(w.gateway.Addr())
	w.must(err)
	s := proxy.NewStream(proxy.Config{
		Conn:      conn,
		Kind:      proxy.Get,
		Authority: authority,
		Token:     fmt.Sprintf(`{"ns":"shop","nodeName":%q}`, w.shops["west"].Node()),
	})
	w.atEnd(conn.Close)
	w.t.Cleanup(s.Close)
	w.must(s.Open(context.Background()))
}

func (w *world) annotate(service, name, value string) {
	w.t.Helper()
	annotations := map[string]any{name: value}
	if value == "" {
		annotations[name] = nil // removes the annotation
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	w.must(err)
	_, err = w.shops["west"].CoreV1().
		Services(shop.Namespace).
		Patch(w.t.Context(), service, types.MergePatchType, patch, metav1.PatchOptions{})
	w.must(err)
}

// refused checks that the admin server rejects requests that write, and requests from the pages of
// other sites.
func (w *world) refused() {
	ask := func(method, path string, change func(*http.Request)) int {
		request, err := http.NewRequestWithContext(w.t.Context(), method, w.origin+path, nil)
		w.must(err)
		change(request)
		answer, err := http.DefaultClient.Do(request)
		w.must(err)
		answer.Body.Close()
		return answer.StatusCode
	}
	for _, path := range []string{"/", "/page/main.js", "/debug/services?view=list"} {
		if code := ask(
			http.MethodGet,
			path,
			func(r *http.Request) { r.Host = "rebound.example:9996" },
		); code != http.StatusForbidden {
			w.t.Errorf("%s with the host name of another site: %d", path, code)
		}
		if code := ask(
			http.MethodGet,
			path,
			func(r *http.Request) { r.Host = "isthmus.linkerd.svc.cluster.local:9996" },
		); code != http.StatusOK {
			w.t.Errorf("%s with a host name of the cluster: %d", path, code)
		}
	}
	for _, path := range []string{"/", "/page/main.js"} {
		if code := ask(http.MethodPost, path, func(*http.Request) {}); code != http.StatusMethodNotAllowed {
			w.t.Errorf("POST %s: %d", path, code)
		}
	}
}

func (w *world) search() {
	w.run(chromedp.SendKeys(chromedp.CSS("#services input[type=search]"), "CART"))
	w.holds("document.querySelectorAll('#services tbody tr').length === 1")
	w.shows("#services", "cart-east", "1 service of 2")
	w.run(chromedp.SendKeys(chromedp.CSS("#services input[type=search]"), "zzz"))
	w.shows("#services", "None of 2 services matches.")
	w.run(chromedp.Reload()) // the URL contains the search
	w.shows("#services", "None of 2 services matches.")
	w.run(chromedp.Navigate(w.origin + "/"))
	w.shows("#services tbody", "web-federated", "cart-east")
	w.noFaults(w.origin)
}

// sort changes the order and filters the services. Both are part of the URL.
func (w *world) sort() {
	const first = "#services tbody tr:first-child"
	w.shows(first, "cart-east")
	w.choose("#services [name=sort]", "streams")
	w.shows(first, "web-federated")
	w.run(chromedp.Reload())
	w.shows(first, "web-federated")
	w.choose("#services [name=show]", "mirrored")
	w.shows("#services", "cart-east", "1 service of 2")
	w.run(
		chromedp.Navigate(w.origin + "/?services.sort=nonsense&services.page=x&services.show=plain&clusters.sort=name"),
	)
	w.shows("#services", "None of 2 services matches.")
	w.shows("#clusters tbody tr:first-child", "local")
	w.run(chromedp.Navigate(w.origin + "/"))
	w.shows(first, "cart-east")
	w.noFaults(w.origin)
}

func (w *world) choose(selector, value string) {
	w.t.Helper()
	w.script(fmt.Sprintf(
		"{ const s = document.querySelector(%q); s.value = %q; s.dispatchEvent(new Event('input', {bubbles: "+
			"true})) }",
		selector,
		value,
	))
}

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
		w.t.Fatal("Tab does not reach the service's button, or its focus is not visible")
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
	w.holds(on) // the focus has returned
	w.run(chromedp.Click(chromedp.CSS("#services tbody tr:last-child button")))
	w.holds("document.getElementById('explain').open")
	w.run(chromedp.Click(chromedp.CSS("#explain .close")))
	w.holds("!document.getElementById('explain').open")
	w.noFaults(w.origin)
}

// looks checks the color scheme, and checks that nothing is cut off at a width of 320 pixels (a
// zoom of 400% at 1280 pixels).
func (w *world) looks() {
	const light = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number).reduce((a, b) => a + " +
		"b) > 600"
	for _, scheme := range []string{"light", "dark"} {
		w.scheme(scheme)
		if w.is(light) != (scheme == "light") {
			w.t.Errorf("the background does not match %s", scheme)
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

// clusterGoes checks that changes appear without a reload and that the focus does not move.
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
		w.t.Error("the page was reloaded, or the focus is lost")
	}
	w.noFaults(w.origin)
}

// hidden checks that a page in the background sends no requests, and that it shows all changes once
// it is visible again.
func (w *world) hidden() {
	visible := func(is bool) {
		w.script(fmt.Sprintf(
			"Object.defineProperty(document, 'hidden', {configurable: true, value: %v}); "+
				"document.dispatchEvent(new Event('visibilitychange'))",
			!is,
		))
	}
	visible(false)
	w.must(harness.Pause(w.t.Context(), 3*time.Second)) // for responses to earlier requests
	before := w.text("#services tbody")
	_, err := w.shops["west"].Scale(w.t.Context(), "web", 4)
	w.must(err)
	w.must(harness.Poll(w.t.Context(), time.Minute, 100*time.Millisecond, func() error {
		text, err := harness.GetPage(
			w.t.Context(),
			w.gateway.MetricsAddr(),
			"/debug/services?view=list&q=web-federated",
		)
		if err == nil && !strings.Contains(text, `"cluster":"local","service":"shop/web","endpoints":4`) {
			err = fmt.Errorf("the replica does not show yet: %s", text)
		}
		return err
	}))
	w.must(harness.Pause(w.t.Context(), 3*time.Second)) // long enough for a request from a visible page
	if got := w.text("#services tbody"); got != before {
		w.t.Errorf("a hidden page sent a request: %s", got)
	}
	visible(true)
	w.shows("#services tbody", "local 4")
	w.noFaults(w.origin)
}

// restarts checks that the page shows an unavailable replica, and that it recovers without a
// reload.
func (w *world) restarts() {
	w.script("window.notReloaded = true")
	w.must(w.gateway.Signal(syscall.SIGTERM))
	<-w.gateway.Exited()
	w.shows("#connection", "The replica does not respond. Trying again. The page may show old data.")
	w.shows("#services tbody", "web-federated")
	w.must(w.gateway.Restart(w.t.Context()))
	w.shows("#connection", "Live")
	w.holds("window.notReloaded && !document.body.classList.contains('lost')")
	w.shows("#clusters tbody", "local", "north")
	w.noFaults(
		w.origin,
		"ERR_CONNECTION_REFUSED",
		"ERR_INCOMPLETE_CHUNKED_ENCODING",
		"ERR_EMPTY_RESPONSE",
		"ERR_CONNECTION_RESET",
	)
}

// unavailable checks that the page shows error responses and keeps the previous content.
func (w *world) unavailable() {
	target, err := url.Parse(w.origin)
	w.must(err)
	var busy atomic.Bool
	forward := httputil.NewSingleHostReverseProxy(target)
	front := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		if busy.Load() {
			http.Error(answer, "too many <b>requests", http.StatusServiceUnavailable)
			return
		}
		forward.ServeHTTP(answer, r)
	}))
	defer front.Close()
	w.run(chromedp.Navigate(front.URL + "/"))
	w.shows("#connection", "Live")
	w.shows("#services tbody", "web-federated")
	busy.Store(true)
	w.shows("#connection", "The replica responded with status 503: too many <b>requests. Trying again. "+
		"The page may show old data.")
	w.shows("#services tbody", "web-federated")
	w.run(chromedp.Click(chromedp.CSS("#services tbody tr:last-child button")))
	w.shows("#explanation", "too many <b>requests")
	w.run(chromedp.Click(chromedp.CSS("#explain .close")))
	busy.Store(false)
	w.shows("#connection", "Live")
	w.holds("!document.body.classList.contains('lost')")
	w.noFaults(front.URL, "503 (Service Unavailable)")
}

func (w *world) screenshots() {
	if *screenshots == "" {
		w.t.Log("-screenshots is not set")
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

// hostileTexts checks that hostile strings in Services, links and clusters appear as plain text.
func (w *world) hostileTexts() {
	w.annotate("cart-east", "isthmus.io/prefer", hostile)
	link := kube.Link(
		"evil",
		[]byte("apiVersion: v1\nkind: Config\n"+`current-context: "<img src=x onerror=alert(3)>"`),
	)
	w.must(w.shops["west"].Apply(w.t.Context(), link))
	w.shows("#services tbody", "wrong annotation", "<script>alert(1)</script>")
	w.shows("#clusters tbody", "evil", "✗ rejected")
	w.shows("#events tbody", "evil", "cannot be used")
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

// onlyText checks that no string became markup or contains control characters.
func (w *world) onlyText() {
	w.t.Helper()
	if w.is("document.querySelectorAll('main script, main img, #explain script, #explain img').length > 0") {
		w.t.Error("a text was interpreted as markup")
	}
	if w.is(`/[\u0000-\u0008\u000b-\u001f\u202a-\u202e]/.test(document.body.textContent)`) {
		w.t.Error("the page contains a control character")
	}
}

// networks moves north to another network with two multicluster gateways, one of each kind.
func (w *world) networks() {
	alive := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer alive.Close()
	dead := httptest.NewServer(http.NotFoundHandler())
	defer dead.Close()
	at := func(addr string) netip.AddrPort { return netip.MustParseAddrPort(addr) }
	probe := func(s *httptest.Server) uint16 { return s.Listener.Addr().(*net.TCPAddr).AddrPort().Port() }
	north := w.shops["north"]
	w.must(north.Gateways(w.t.Context(),
		shop.LinkerdGateway{Name: "gateway-1", Addr: at("127.0.0.1:4143"), Probe: probe(alive)},
		shop.LinkerdGateway{Name: "gateway-2", Addr: at("127.0.0.1:4144"), Probe: probe(dead)},
		shop.LinkerdGateway{Name: "gateway-3", Addr: at("127.0.0.2:4143"), Probe: probe(alive)},
		shop.LinkerdGateway{Name: "gateway-4", Addr: at("127.0.0.1:4145"), Probe: probe(alive)},
		shop.LinkerdGateway{Name: "gateway-5", Addr: at("127.0.0.1:4146"), Probe: probe(alive)},
	))
	w.change("gateway-4", func(s *corev1.Service) { delete(s.Annotations, "mirror.linkerd.io/probe-path") })
	w.change("gateway-5", func(s *corev1.Service) { s.Annotations["mirror.linkerd.io/gateway-identity"] = hostile })
	w.link(
		"north",
		map[string]string{"isthmus.io/network": "far", "isthmus.io/address-ranges": "10.0.0.0/8, 127.0.0.1/32"},
	)
	w.shows(
		"#clusters tbody",
		"on network far",
		"reached through its gateways",
		"127.0.0.1:4143 alive",
		"127.0.0.1:4144 dead: answers 404",
		"127.0.0.1:4145",
		"127.0.0.2:4143",
	)
	w.shows(
		"#clusters tbody",
		"127.0.0.2:4143 outside-ranges",
		"127.0.0.1:4145 not-probed",
		"gateway linkerd-multicluster/gateway-5: its annotation",
	)
	w.run(chromedp.Click(chromedp.CSS("[data-focus='service shop/web-federated']")))
	w.shows(
		"#explanation",
		"served 7",
		"behind-a-gateway 1",
		"gateway-dead answers 404, not 200 north Gateway of north",
		"127.0.0.1:4143 ✓ served north Gateway of north",
	)
	w.run(chromedp.Click(chromedp.CSS("#explain .close")))

	keys := []string{
		"isthmus.io/network",
		"isthmus.io/gateway-addresses",
		"isthmus.io/gateway-identity",
		"isthmus.io/address-ranges",
	}
	w.link("north", map[string]string{keys[0]: hostile, keys[1]: hostile, keys[2]: hostile})
	w.shows("#clusters tbody", "on network (can't be read)",
		keys[0]+`: "<script>`, keys[1]+`: "<script>`, keys[2]+`: "<script>`, "and 1 more")
	w.onlyText()
	w.run(chromedp.EmulateViewport(320, 640))
	if w.is("document.documentElement.scrollWidth > 320") {
		w.t.Error("the page is wider than 320 pixels")
	}
	w.run(chromedp.EmulateViewport(1440, 900))
	w.noFaults(w.origin)
	w.link("north", map[string]string{keys[0]: "", keys[1]: "", keys[2]: "", keys[3]: ""})
	w.shows("#services tbody", "north 1")
}

func (w *world) change(gateway string, how func(*corev1.Service)) {
	w.t.Helper()
	services := w.shops["north"].CoreV1().Services("linkerd-multicluster")
	s, err := services.Get(w.t.Context(), gateway, metav1.GetOptions{})
	w.must(err)
	how(s)
	_, err = services.Update(w.t.Context(), s, metav1.UpdateOptions{})
	w.must(err)
}

func (w *world) link(cluster string, annotations map[string]string) {
	w.t.Helper()
	_, err := w.shops["west"].AnnotateLink(w.t.Context(), cluster, annotations)
	w.must(err)
}
