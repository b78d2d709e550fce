package copies

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus/clusterstore"
	"isthmus/federation"
)

// A copy of a cluster is first encoded as one large object in the format of a ConfigMap, whose
// binary data contains a list for each resource. Because API servers limit the size of an object,
// the encoded copy is split into parts, and each part is stored in its own ConfigMap.

const (
	namePrefix      = "isthmus-cache-"
	clusterLabel    = "isthmus.io/cache-cluster"
	generationLabel = "isthmus.io/cache-generation"
	headAnnotation  = "isthmus.io/cache"
	partKey         = "part"
)

const (
	maxPart  = 900 << 10 // of one ConfigMap, in bytes; an API server accepts 1 MiB
	maxCopy  = 16 << 20  // of a generation, in bytes
	maxAll   = 64 << 20  // of all clusters, in bytes
	maxParts = maxCopy/maxPart + 1
	maxLists = 32      // of a copy; a copy has a list for each kind
	maxOther = 128     // of a field other than a list, in bytes; a copy has empty metadata
	maxHead  = 4 << 10 // of a head, in bytes
	// maxGenerations is the maximum number of generations that a replica considers at a time. The
	// limit caps the memory used by the metadata of generations.
	maxGenerations = 2048
)

// binaryDataNumber is the protobuf field number of a ConfigMap's binary data.
const binaryDataNumber = 3

// head describes a generation. Every ConfigMap of a generation stores the generation's head in an
// annotation.
type head struct {
	clusterstore.CopiedCluster
	Written  time.Time `json:"written"`
	Bytes    int       `json:"bytes"`    // of all parts
	Parts    int       `json:"parts"`    // number of ConfigMaps
	Checksum string    `json:"checksum"` // SHA-256 of all parts
}

// generation holds the metadata of one complete or incomplete copy of a cluster.
type generation struct {
	head           // zero if the annotation is invalid
	names []string // of the ConfigMaps, in the order of the parts
}

func (g *generation) complete() bool { return len(g.names) == g.Parts }

// mayGrow reports whether another replica may still be writing an incomplete generation.
func (g *generation) mayGrow() bool { return !g.complete() && time.Since(g.Written).Abs() <= readyFor }

// fromFuture reports whether the recorded time of the write or of the outage is so far in the
// future that clock differences cannot explain it.
func (g *generation) fromFuture() bool {
	return max(time.Until(g.Written), time.Until(g.Lost)) > maxClockDifference
}

// tooOld reports whether the recorded start of the outage is at least maxAge away from the current
// time, in either direction.
func (g *generation) tooOld(maxAge time.Duration) bool { return time.Since(g.Lost).Abs() >= maxAge }

// slug returns a string that identifies a cluster in the names and labels of ConfigMaps. If the
// cluster's name is too long or contains invalid characters, slug returns a hash of the name.
func slug(name federation.ClusterName) string {
	text := string(name)
	if len(text) <= validation.LabelValueMaxLength && len(validation.IsDNS1123Subdomain(text)) == 0 {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("sha256-%x", sum[:16])
}

func pack(c *clusterstore.Copy, written time.Time) (head, []*corev1.ConfigMap) {
	data, _ := (&corev1.ConfigMap{BinaryData: c.Lists}).Marshal() // never fails
	parts := slices.Collect(slices.Chunk(data, maxPart))
	h := head{CopiedCluster: c.CopiedCluster, Written: written, Bytes: len(data), Parts: len(parts)}
	h.Checksum = fmt.Sprintf("%x", sha256.Sum256(data))
	text, _ := json.Marshal(&h) // never fails for these types
	id := strconv.FormatInt(written.UnixMilli(), 10)
	list := make([]*corev1.ConfigMap, 0, len(parts))
	for i, part := range parts {
		list = append(list, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Name:        fmt.Sprintf("%s%s-%s-%02d", namePrefix, slug(c.Cluster), id, i+1),
				Labels:      map[string]string{clusterLabel: slug(c.Cluster), generationLabel: id},
				Annotations: map[string]string{headAnnotation: string(text)},
			},
			Immutable:  new(true),
			BinaryData: map[string][]byte{partKey: part},
		})
	}
	return h, list
}

func (g *generation) unpack(parts [][]byte) (*clusterstore.Copy, error) {
	data := bytes.Join(parts, nil)
	var m corev1.ConfigMap
	switch {
	case fmt.Sprintf("%x", sha256.Sum256(data)) != g.Checksum:
		return nil, clusterstore.UnusableCopy("it is damaged: its checksum is wrong")
	case !onlyLists(data) || m.Unmarshal(data) != nil:
		return nil, clusterstore.UnusableCopy("it is damaged: it contains data other than lists")
	}
	return &clusterstore.Copy{CopiedCluster: g.CopiedCluster, Lists: m.BinaryData}, nil
}

// onlyLists reports whether a serialized ConfigMap has few fields, and no large field other than
// the lists. Decoding many small values, or large fields of other types, could use a hundred times
// as much memory as the data.
func onlyLists(data []byte) bool {
	for n := 0; len(data) > 0; n++ {
		number, _, size := protowire.ConsumeField(data)
		if size < 0 || n > maxLists || number != binaryDataNumber && size > maxOther {
			return false
		}
		data = data[size:]
	}
	return true
}

// The key of a generation is the SHA-256 of the cluster label and the head annotation of its
// ConfigMaps.
type generations map[[sha256.Size]byte]*generation

// add adds a ConfigMap to its generation. A generation with an invalid annotation counts as
// incomplete, so the leader deletes it. The number and size of generations are limited, because
// users may forge ConfigMaps. Because the caller may reuse the object, add does not retain any of
// the object's strings.
func (g generations) add(o metav1.Object) {
	label := o.GetLabels()[clusterLabel]
	text := o.GetAnnotations()[headAnnotation]
	if label == "" || !strings.HasPrefix(o.GetName(), namePrefix) {
		return
	}
	key := sha256.Sum256([]byte(label + text))
	one := g[key]
	if one == nil {
		if len(g) == maxGenerations {
			return
		}
		one = new(generation)
		g[key] = one
		if len(text) > maxHead || json.Unmarshal([]byte(text), &one.head) != nil || slug(one.Cluster) != label ||
			one.Bytes < 0 || one.Bytes > maxParts*maxPart || one.Parts > maxParts {
			one.head = head{}
		}
	}
	if len(one.names) <= maxParts { // with more names, a generation is incomplete
		one.names = append(one.names, strings.Clone(o.GetName()))
	}
}
