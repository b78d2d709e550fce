package kube

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/versioning"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdlatest "k8s.io/client-go/tools/clientcmd/api/latest"
)

// Limits of the YAML that is decoded. What decodes it copies the content of each alias,
// so that some hundred kilobytes could become gigabytes.
const (
	// maxKubeconfig is in bytes. A kubeconfig of one cluster has a few kilobytes, most
	// of them certificates.
	maxKubeconfig = 64 << 10
	// maxDepth is how deep maps and lists may be nested. A kubeconfig without
	// extensions needs 8 levels.
	maxDepth = 20
)

// mergeKey in a map means that another map's keys are to be added.
const mergeKey = "<<"

// strictCodec is that of clientcmd, but refuses unknown fields and fields that are
// there twice.
var strictCodec = func() runtime.Codec {
	scheme := clientcmdlatest.Scheme
	s := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	return versioning.NewDefaultingCodecForScheme(scheme, s, s, schema.GroupVersion{Version: clientcmdlatest.Version}, runtime.InternalGroupVersioner)
}()

var errUnparsable = errors.New("kubeconfig can't be parsed")

// decodeKubeconfig decodes YAML within limits, and strictly. No data is an empty
// kubeconfig. Errors do not quote it.
func decodeKubeconfig(data []byte) (*clientcmdapi.Config, error) {
	if len(data) > maxKubeconfig {
		return nil, fmt.Errorf("kubeconfig is too large: %d bytes, more than %d: keep only the cluster, the user and the context that the link needs", len(data), maxKubeconfig)
	}
	config := clientcmdapi.NewConfig()
	if len(data) == 0 {
		return config, nil
	}
	plain, err := plainYAML(data)
	if err != nil {
		return nil, err
	}
	decoded, _, err := strictCodec.Decode(plain, &schema.GroupVersionKind{Version: clientcmdlatest.Version, Kind: "Config"}, config)
	switch {
	case runtime.IsStrictDecodingError(err):
		return nil, errors.New("kubeconfig has a field that is unknown or there twice: check the spelling and the indentation of its fields")
	case err != nil:
		return nil, errUnparsable
	}
	config, ok := decoded.(*clientcmdapi.Config)
	if !ok {
		return nil, errUnparsable
	}
	return config, nil
}

// plainYAML returns the only document of a YAML text, or an error if it has what
// [checkNode] refuses. The document is written anew: the decoder, which has another
// parser, must not find an alias where this one found none.
func plainYAML(data []byte) ([]byte, error) {
	documents := yaml.NewDecoder(bytes.NewReader(data))
	var document, next yaml.Node
	switch err := documents.Decode(&document); {
	case err == io.EOF:
		return nil, nil
	case err != nil:
		return nil, errUnparsable
	}
	if err := checkNode(&document, 0); err != nil {
		return nil, err
	}
	if err := documents.Decode(&next); err != io.EOF {
		return nil, errors.New("kubeconfig has more than one YAML document: keep one")
	}
	plain, err := yaml.Marshal(&document)
	if err != nil {
		return nil, errUnparsable
	}
	return plain, nil
}

// checkNode refuses anchors, aliases, merge keys and deep nesting, and drops comments.
func checkNode(n *yaml.Node, depth int) error {
	n.HeadComment, n.LineComment, n.FootComment = "", "", ""
	switch {
	case n.Kind == yaml.AliasNode:
		return fmt.Errorf("kubeconfig has a YAML alias (*) in line %d, which is not allowed in a link: write the value out", n.Line)
	case n.Anchor != "":
		return fmt.Errorf("kubeconfig has a YAML anchor (&) in line %d, which is not allowed in a link: write values out", n.Line)
	case n.Kind == yaml.ScalarNode:
		return nil
	case depth > maxDepth:
		return fmt.Errorf("kubeconfig is nested deeper than %d levels in line %d: keep only what the link needs", maxDepth, n.Line)
	}
	for i, child := range n.Content {
		if isKey := n.Kind == yaml.MappingNode && i%2 == 0; isKey && (child.Value == mergeKey || child.ShortTag() == "!!merge") {
			return fmt.Errorf("kubeconfig has a YAML merge key (%s) in line %d, which is not allowed in a link: write the fields out", mergeKey, child.Line)
		}
		if err := checkNode(child, depth+1); err != nil {
			return err
		}
	}
	return nil
}
