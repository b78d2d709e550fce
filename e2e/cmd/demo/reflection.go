package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"isthmus/e2e/proxy"
)

const destination = "io.linkerd.proxy.destination.Destination"

// byReflection calls Get as grpcurl does: with nothing but what the server
// describes itself by, from JSON to JSON.
func (d *demo) byReflection(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, proxy.FirstMessageLimit)
	defer cancel()
	conn, err := proxy.Dial(d.gateway.Addr())
	if err != nil {
		return err
	}
	defer conn.Close()
	get, err := reflectGet(ctx, conn)
	if err != nil {
		return fmt.Errorf("reflection: %w", err)
	}
	request, reply := dynamicpb.NewMessage(get.Input()), dynamicpb.NewMessage(get.Output())
	if err := protojson.Unmarshal(fmt.Appendf(nil, `{"path": %q}`, federated), request); err != nil {
		return err
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/"+destination+"/Get")
	if err != nil {
		return err
	}
	if err := stream.SendMsg(request); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if err := stream.RecvMsg(reply); err != nil {
		return err
	}
	text, err := protojson.Marshal(reply)
	if err != nil {
		return err
	}
	update := &pb.Update{}
	if err := protojson.Unmarshal(text, update); err != nil {
		return fmt.Errorf("reflection: %w", err)
	}
	var addrs []netip.AddrPort
	for _, w := range update.GetAdd().GetAddrs() {
		addr, ok := proxy.AddrPort(w.GetAddr())
		if !ok {
			return fmt.Errorf("reflection: invalid address %v", w)
		}
		addrs = append(addrs, addr)
	}
	return d.same("a call by reflection", addrs)
}

// reflectGet asks the server for the description of its method Get, which comes with all that it depends on.
func reflectGet(ctx context.Context, conn grpc.ClientConnInterface) (protoreflect.MethodDescriptor, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		return nil, err
	}
	if err := stream.Send(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: destination},
	}); err != nil && err != io.EOF { // EOF: Recv returns why
		return nil, err
	}
	reply, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	if e := reply.GetErrorResponse(); e != nil {
		return nil, errors.New(e.GetErrorMessage())
	}
	set := &descriptorpb.FileDescriptorSet{}
	for _, text := range reply.GetFileDescriptorResponse().GetFileDescriptorProto() {
		file := &descriptorpb.FileDescriptorProto{}
		if err := proto.Unmarshal(text, file); err != nil {
			return nil, err
		}
		set.File = append(set.File, file)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		return nil, err
	}
	found, err := files.FindDescriptorByName(destination + ".Get")
	if err != nil {
		return nil, err
	}
	get, ok := found.(protoreflect.MethodDescriptor)
	if !ok {
		return nil, fmt.Errorf("%s is no method", found.FullName())
	}
	return get, nil
}
