package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"isthmus/e2e/poll"
	"isthmus/e2e/proxy"
	"isthmus/e2e/shop"
)

const (
	written = "cart-federated" // by the gateway alone
	// unlinkedAfter is the gateway's --unlinked-after here: as short as it may be.
	unlinkedAfter = 10 * time.Second
)

// exports is the act about Services that the gateway writes, for a label and for a ServiceExport in a linked cluster.
func (d *demo) exports(ctx context.Context) error {
	d.screen.print("\nServices that nobody has written: the gateway does, for a label or a ServiceExport in another cluster\n")
	return d.parts(ctx, []part{
		{"label cart in east: west has cart-federated, and reaches it", d.exportCart},
		{"export cart there: west reaches it by its ServiceImport's IP", d.importCart},
		{"unlink east: " + unlinkedAfter.String() + " later cart-federated goes", d.unlinkExporter},
		{"link east again: cart-federated is back", d.relinkExporter},
	})
}

func (d *demo) exportCart(ctx context.Context) error {
	label := []byte(`{"metadata":{"labels":{"mirror.linkerd.io/federated":"member"}}}`)
	if _, err := d.shops[east].CoreV1().Services(shop.Namespace).Patch(ctx, "cart", types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("cluster east: label Service cart: %w", err)
	}
	return d.cartReached(ctx)
}

// cartReached waits until clients in west reach east's cart by the Service that the gateway writes.
func (d *demo) cartReached(ctx context.Context) error {
	if err := d.awaitWritten(ctx, seenLimit, true); err != nil {
		return err
	}
	return d.reachCart(ctx, written+".shop.svc.cluster.local")
}

// reachCart waits until clients in west reach east's cart by a Service of west.
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

// importCart reaches cart as a client does whose DNS has answered cart.shop.svc.clusterset.local by the ServiceImport's IP: its proxy asks by that.
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
	err = poll.Until(ctx, seenLimit, 20*time.Millisecond, func() error {
		if p := stream.Snapshot().Profile.Profile(); p == nil || p.GetFullyQualifiedName() == "" {
			return fmt.Errorf("the profile of %s:80 names no Service: %v", ip, p)
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

// awaitWritten waits until the Service is there, or no longer.
func (d *demo) awaitWritten(ctx context.Context, limit time.Duration, there bool) error {
	return poll.Until(ctx, limit, 50*time.Millisecond, func() error {
		_, err := d.shops[west].CoreV1().Services(shop.Namespace).Get(ctx, written, metav1.GetOptions{})
		switch {
		case !there && apierrors.IsNotFound(err):
			return nil
		case !there && err == nil:
			return errors.New("the Service " + written + " is still there")
		}
		return err
	})
}

func (d *demo) unlinkExporter(ctx context.Context) error {
	delete(d.want, east)
	start := time.Now()
	if err := d.shops[west].Unlink(ctx, east); err != nil {
		return err
	}
	if err := d.awaitWritten(ctx, unlinkedAfter+seenLimit, false); err != nil {
		return err
	}
	if took := time.Since(start); took < unlinkedAfter {
		return fmt.Errorf("it has gone after %s already", short(took))
	}
	_, err := await(ctx, d.stream, d.want, seenLimit)
	return err
}

func (d *demo) relinkExporter(ctx context.Context) error {
	if err := d.expectPods(ctx, east); err != nil {
		return err
	}
	if _, err := d.linkBy(ctx, east, firstToken); err != nil {
		return err
	}
	if err := d.cartReached(ctx); err != nil {
		return err
	}
	_, err := await(ctx, d.stream, d.want, seenLimit)
	return err
}
