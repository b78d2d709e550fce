package main

import "k8s.io/apimachinery/pkg/runtime"

// message is an object or list of Kubernetes' own.
type message interface{ Marshal() ([]byte, error) }

// inProtobuf encodes an object as an API server does.
func inProtobuf(version, kind string, o message) []byte {
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: version, Kind: kind}, Raw: marshal(o)}
	return append([]byte("k8s\x00"), marshal(&unknown)...)
}

func marshal(o message) []byte {
	data, err := o.Marshal()
	if err != nil {
		panic(err)
	}
	return data
}
