package corpus

import (
	_ "embed"
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime"
)

// e2e/apisim records this file and compares it with what a real API server answers.
//
//go:embed recorded.json
var recorded []byte

// Answer is what a real API server has answered to a list or watch.
type Answer struct {
	Path        string // with its query
	Accept      string
	ContentType string
	Body        []byte
}

// Recorded returns lists and watches of all kinds that are followed, of objects that have all fields that are used.
func Recorded() (all []Answer, err error) {
	err = json.Unmarshal(recorded, &all)
	return all, err
}

// Resource is that of the path.
func (a Answer) Resource() string {
	path, _, _ := strings.Cut(a.Path, "?")
	return path[strings.LastIndexByte(path, '/')+1:]
}

// Watch reports whether it is a watch.
func (a Answer) Watch() bool { return strings.Contains(a.Path, "watch=true") }

// Objects returns the encoded objects of a list.
func (a Answer) Objects() (objects [][]byte, err error) {
	if a.ContentType == runtime.ContentTypeJSON {
		var list struct{ Items []json.RawMessage }
		err := json.Unmarshal(a.Body, &list)
		for _, o := range list.Items {
			objects = append(objects, o)
		}
		return objects, err
	}
	var list runtime.Unknown
	if err := list.Unmarshal(a.Body[len("k8s\x00"):]); err != nil {
		return nil, err
	}
	for rest := list.Raw; len(rest) > 0; {
		number, _, tag := protowire.ConsumeTag(rest)
		data, n := protowire.ConsumeBytes(rest[max(tag, 0):])
		if tag < 0 || n < 0 {
			return nil, protowire.ParseError(min(tag, n))
		}
		if rest = rest[tag+n:]; number == 2 {
			objects = append(objects, data)
		}
	}
	return objects, nil
}
