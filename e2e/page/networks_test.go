package page

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"

	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/e2e/shop"
)

// networks puts north on another network, behind one gateway of each kind.
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
	w.link("north", map[string]string{"isthmus.io/network": "far", "isthmus.io/address-ranges": "10.0.0.0/8, 127.0.0.1/32"})
	w.shows("#clusters tbody", "on network far", "reached through its gateways", "127.0.0.1:4143 alive", "127.0.0.1:4144 dead: answers 404", "127.0.0.1:4145", "127.0.0.2:4143")
	w.shows("#clusters tbody", "127.0.0.2:4143 outside-ranges", "127.0.0.1:4145 not-probed", "gateway linkerd-multicluster/gateway-5: its annotation")
	w.run(chromedp.Click(chromedp.CSS("[data-focus='service shop/web-federated']")))
	w.shows("#explanation", "served 7", "behind-a-gateway 1", "gateway-dead answers 404, not 200 north Gateway of north", "127.0.0.1:4143 ✓ served north Gateway of north")
	w.run(chromedp.Click(chromedp.CSS("#explain .close")))

	keys := []string{"isthmus.io/network", "isthmus.io/gateway-addresses", "isthmus.io/gateway-identity", "isthmus.io/address-ranges"}
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

// change changes the Service of one of north's gateways.
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
