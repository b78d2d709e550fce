package faults

import (
	"context"
	"fmt"
	"sync"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"isthmus/e2e/proxy"
)

// raw is a codec that does not decode messages, because crowds only count them.
type raw struct{}

func (raw) Name() string { return "raw" }

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = (*v.(*[]byte))[:0]
	for _, b := range data {
		*v.(*[]byte) = append(*v.(*[]byte), b.ReadOnlyData()...)
	}
	return nil
}

func request(authority, token string) []byte {
	text, err := proto.Marshal(&pb.GetDestination{Scheme: "k8s", Path: authority, ContextToken: token})
	if err != nil {
		panic(err) // impossible: two strings can always be encoded
	}
	return text
}

// get opens a Get stream without decoding messages.
func get(ctx context.Context, conn *grpc.ClientConn, request []byte) (grpc.ClientStream, error) {
	return open(ctx, conn, pb.Destination_Get_FullMethodName, request)
}

func open(ctx context.Context, conn *grpc.ClientConn, method string, request []byte) (grpc.ClientStream, error) {
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method, grpc.ForceCodecV2(raw{}))
	if err != nil {
		return nil, err
	}
	if err := stream.SendMsg(&request); err != nil {
		return nil, err
	}
	return stream, stream.CloseSend()
}

// crowd is a number of proxies with the same request, each on its own connection.
type crowd struct {
	addr    string
	request []byte
	size    int

	stop   context.CancelFunc
	ending sync.WaitGroup
}

// come connects all proxies at once. The returned channel receives one arrival per proxy.
func (c *crowd) come(ctx context.Context) <-chan arrival {
	ctx, c.stop = context.WithCancel(ctx)
	arrivals := make(chan arrival, c.size)
	for range c.size {
		c.ending.Go(func() { c.one(ctx, arrivals) })
	}
	return arrivals
}

// arrival is the time until a proxy's first message, or the error that the proxy received instead.
type arrival struct {
	took time.Duration
	err  error
}

func (c *crowd) one(ctx context.Context, arrivals chan<- arrival) {
	began := time.Now()
	conn, err := proxy.Dial(c.addr)
	if err != nil {
		arrivals <- arrival{err: err}
		return
	}
	defer conn.Close()
	stream, err := get(ctx, conn, c.request)
	if err != nil {
		arrivals <- arrival{err: err}
		return
	}
	var message []byte
	err = stream.RecvMsg(&message)
	arrivals <- arrival{time.Since(began), err}
	for err == nil {
		err = stream.RecvMsg(&message)
	}
}

func (c *crowd) leave() {
	c.stop()
	c.ending.Wait()
}

func (c *crowd) served(arrivals <-chan arrival, limit time.Duration) (worst time.Duration, err error) {
	over := time.After(limit)
	for n := range c.size {
		select {
		case a := <-arrivals:
			if a.err != nil {
				return 0, fmt.Errorf("one of %d proxies: %w", c.size, a.err)
			}
			worst = max(worst, a.took)
		case <-over:
			return 0, fmt.Errorf("%d of %d proxies received nothing after %v", c.size-n, c.size, limit)
		}
	}
	return worst, nil
}
