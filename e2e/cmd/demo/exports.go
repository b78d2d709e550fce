package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"isthmus/e2e/harness"
	"isthmus/e2e/proxy"
	"isthmus/e2e/shop"
)

const written = "cart-federated" // written only by Isthmus

// exports is the act about exports, with a label and with a ServiceExport in a linked cluster.
type exports struct{ *demo }

func (e exports) play(ctx context.Context) error {
	e.screen.print(
		"\nServices that Isthmus writes for a label or a ServiceExport in another cluster\n",
	)
	return e.parts(ctx, []part{
		{"label cart in east: west gets cart-federated, and can reach it", e.exportCart},
		{"export cart in east: west reaches its ServiceImport's IP", e.importCart},
	})
}

func (e exports) exportCart(ctx context.Context) error {
	label := []byte(`{"metadata":{"labels":{"mirror.linkerd.io/federated":"member"}}}`)
	if _, err := e.shops[east].CoreV1().Services(shop.Namespace).Patch(
		ctx,
		"cart",
		types.MergePatchType,
		label,
		metav1.PatchOptions{},
	); err != nil {
		return fmt.Errorf("cluster east: label Service cart: %w", err)
	}
	if err := harness.Poll(ctx, seenLimit, 50*time.Millisecond, func() error {
		_, err := e.shops[west].CoreV1().Services(shop.Namespace).Get(ctx, written, metav1.GetOptions{})
		return err
	}); err != nil {
		return err
	}
	return e.reachCart(ctx, written+".shop.svc.cluster.local")
}

// reachCart waits until clients in west reach east's cart through a Service in west.
func (e exports) reachCart(ctx context.Context, service string) error {
	addrs, err := e.shops[east].Ready(ctx, "cart")
	if err != nil {
		return err
	}
	stream, closes, err := e.subscribe(ctx, proxy.Get, service+":80")
	if err != nil {
		return err
	}
	defer closes()
	_, err = await(ctx, stream, endpoints{east: addrs}, seenLimit)
	return err
}

// importCart reaches cart through the IP of a ServiceImport. This is the address that a client's
// DNS returns for cart.shop.svc.clusterset.local.
func (e exports) importCart(ctx context.Context) error {
	if err := e.shops[east].Export(ctx, "cart"); err != nil {
		return err
	}
	ip, err := e.shops[west].ImportIP(ctx, "cart")
	if err != nil {
		return err
	}
	stream, closes, err := e.subscribe(ctx, proxy.GetProfile, ip+":80")
	if err != nil {
		return err
	}
	defer closes()
	var service string
	err = harness.Poll(ctx, seenLimit, 20*time.Millisecond, func() error {
		if p := stream.Snapshot().Profile.Profile(); p == nil || p.GetFullyQualifiedName() == "" {
			return fmt.Errorf("the profile of %s:80 does not contain a Service: %v", ip, p)
		} else {
			service = p.GetFullyQualifiedName()
		}
		return nil
	})
	if err != nil {
		return err
	}
	return e.reachCart(ctx, service)
}
