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
func (d *demo) exports(ctx context.Context) error {
	d.screen.print(
		"\nServices that Isthmus writes for a label or a ServiceExport in another cluster\n",
	)
	return d.parts(ctx, []part{
		{"label cart in east: west gets cart-federated, and can reach it", d.exportCart},
		{"export cart in east: west reaches its ServiceImport's IP", d.importCart},
	})
}

func (d *demo) exportCart(ctx context.Context) error {
	label := []byte(`{"metadata":{"labels":{"mirror.linkerd.io/federated":"member"}}}`)
	if _, err := d.shops[east].CoreV1().Services(shop.Namespace).Patch(
		ctx,
		"cart",
		types.MergePatchType,
		label,
		metav1.PatchOptions{},
	); err != nil {
		return fmt.Errorf("cluster east: label Service cart: %w", err)
	}
	if err := harness.Poll(ctx, seenLimit, 50*time.Millisecond, func() error {
		_, err := d.shops[west].CoreV1().Services(shop.Namespace).Get(ctx, written, metav1.GetOptions{})
		return err
	}); err != nil {
		return err
	}
	return d.reachCart(ctx, written+".shop.svc.cluster.local")
}

// reachCart waits until clients in west reach east's cart through a Service in west.
func (d *demo) reachCart(ctx context.Context, service string) error {
	addrs, err := d.shops[east].Ready(ctx, "cart")
	if err != nil {
		return err
	}
	stream, closes, err := d.subscribe(ctx, proxy.Get, service+":80")
	if err != nil {
		return err
	}
	defer closes()
	_, err = await(ctx, stream, endpoints{east: addrs}, seenLimit)
	return err
}

// importCart reaches cart through the IP of a ServiceImport. This is the address that a client's
// DNS returns for cart.shop.svc.clusterset.local.
func (d *demo) importCart(ctx context.Context) error {
	if err := d.shops[east].Export(ctx, "cart"); err != nil {
		return err
	}
	ip, err := d.shops[west].ImportIP(ctx, "cart")
	if err != nil {
		return err
	}
	stream, closes, err := d.subscribe(ctx, proxy.GetProfile, ip+":80")
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
	return d.reachCart(ctx, service)
}
