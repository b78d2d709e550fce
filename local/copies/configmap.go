package copies

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus/clusterstore"
	"isthmus/federation"
)

// These constants are the name prefix, the labels and the annotation of the ConfigMaps.
const (
	namePrefix      = "isthmus-cache-"
	clusterLabel    = "isthmus.io/cache-cluster"
	generationLabel = "isthmus.io/cache-generation"
	countLabel      = "isthmus.io/cache-count"
	headAnnotation  = "isthmus.io/cache"
)

const (
	maxPart  = 900 << 10 // of one ConfigMap, in bytes; an API server accepts 1 MiB
	maxCopy  = 16 << 20  // of a generation, in bytes
	maxAll   = 64 << 20  // of all clusters, in bytes
	maxParts = maxCopy/maxPart + 1
	maxHead  = 8 << 10 // of the annotation, in bytes
)

// unusable is the error for a copy that is permanently unusable.
type unusable string

func (u unusable) Error() string { return string(u) }

const errIncomplete unusable = "it is incomplete"

// head describes a generation. All ConfigMaps of a generation have the same head, except for the
// Part field.
type head struct {
	clusterstore.Copy
	Written  time.Time `json:"written"`
	Bytes    int64     `json:"bytes"` // of the lists
	Checksum string    `json:"checksum"`
	Part     int       `json:"part"` // counted from 1
}

// generation describes one copy of a cluster, based on the metadata of the copy's ConfigMaps.
type generation struct {
	head
	count int
	names []string // of its ConfigMaps
}

func (g *generation) complete() bool { return len(g.names) == g.count }

// slug returns a string that represents a cluster in the names and labels of ConfigMaps. If the
// cluster name is not valid there, slug returns a hash of it.
func slug(name federation.ClusterName) string {
	text := string(name)
	if len(text) <= validation.LabelValueMaxLength && len(validation.IsDNS1123Subdomain(text)) == 0 {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + hex.EncodeToString(sum[:16])
}

// pack returns the ConfigMaps of a new generation. In the binary data, the key of a list is the
// name of its resource. If a list does not fit into a ConfigMap, the list continues in the next
// ConfigMap under the same key.
func pack(c clusterstore.Copy, written time.Time) []*corev1.ConfigMap {
	h := head{Copy: c, Written: written, Checksum: checksum(&c)}
	var parts []map[string][]byte
	room := 0
	for _, resource := range slices.Sorted(maps.Keys(c.Lists)) {
		for data := c.Lists[resource]; len(data) > 0; {
			if room == 0 {
				parts = append(parts, make(map[string][]byte))
				room = maxPart
			}
			n := min(room, len(data))
			parts[len(parts)-1][resource] = data[:n]
			data = data[n:]
			room -= n
			h.Bytes += int64(n)
		}
	}
	id := strconv.FormatInt(written.UnixMilli(), 10)
	list := make([]*corev1.ConfigMap, 0, len(parts))
	for i, data := range parts {
		h.Part = i + 1
		text, _ := json.Marshal(&h) // never fails for these types
		list = append(list, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("%s%s-%s-%d", namePrefix, slug(c.Cluster), id, h.Part),
				Labels: map[string]string{
					clusterLabel:    slug(c.Cluster),
					generationLabel: id,
					countLabel:      strconv.Itoa(len(parts)),
				},
				Annotations: map[string]string{headAnnotation: string(text)},
			},
			Immutable:  new(true),
			BinaryData: data,
		})
	}
	return list
}

// unpack returns the copy that the ConfigMaps of one generation contain. Because anyone may have
// written the ConfigMaps, unpack validates their entire contents.
func unpack(parts []*corev1.ConfigMap) (*clusterstore.Copy, error) {
	if len(parts) == 0 || len(parts) > maxParts {
		return nil, unusable(fmt.Sprintf("it has %d ConfigMaps", len(parts)))
	}
	ordered := make([]*corev1.ConfigMap, len(parts))
	var first head
	for i, m := range parts {
		h, count, err := readHead(m)
		switch {
		case err != nil:
			return nil, err
		case count != len(parts) || h.Part < 1 || h.Part > count || ordered[h.Part-1] != nil:
			return nil, errIncomplete
		case i > 0 && (h.Checksum != first.Checksum || h.Cluster != first.Cluster):
			return nil, unusable("its ConfigMaps do not belong together")
		}
		ordered[h.Part-1] = m
		first = h
	}
	c := &first.Copy
	c.Lists = make(map[string][]byte)
	size := 0
	for _, m := range ordered {
		for resource, data := range m.BinaryData {
			if size += len(data); size > maxCopy {
				return nil, unusable(fmt.Sprintf("it is larger than %d MiB", maxCopy>>20))
			}
			c.Lists[resource] = append(c.Lists[resource], data...)
		}
	}
	if checksum(c) != first.Checksum {
		return nil, unusable("it is damaged: its checksum is wrong")
	}
	return c, nil
}

// readHead returns the head of a generation and the number of ConfigMaps in the generation.
func readHead(o metav1.Object) (h head, count int, err error) {
	text := o.GetAnnotations()[headAnnotation]
	if len(text) > maxHead || json.Unmarshal([]byte(text), &h) != nil {
		return head{}, 0, unusable("annotation " + headAnnotation + " can't be read")
	}
	count, err = strconv.Atoi(o.GetLabels()[countLabel])
	switch {
	case h.Bytes < 0 || h.Bytes > maxCopy:
		return head{}, 0, unusable("the size in annotation " + headAnnotation + " is invalid")
	case err != nil || count < 1 || count > maxParts:
		return head{}, 0, unusable("label " + countLabel + " is invalid")
	case o.GetLabels()[clusterLabel] != slug(h.Cluster):
		return head{}, 0, unusable("label " + clusterLabel + " is invalid")
	}
	return h, count, nil
}

// checksum returns the SHA-256 hash of a copy in hexadecimal. The hash includes the length of each
// string.
func checksum(c *clusterstore.Copy) string {
	h := sha256.New()
	add := func(data []byte) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(data))))
		h.Write(data)
	}
	add([]byte(c.Cluster))
	add([]byte(c.Identity))
	add([]byte(c.Server))
	add([]byte(c.Lost.UTC().Format(time.RFC3339Nano)))
	for _, resource := range slices.Sorted(maps.Keys(c.Lists)) {
		add([]byte(resource))
		add(c.Lists[resource])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// generations maps the labels for the cluster and the generation to a generation.
type generations map[string]*generation

// add adds a ConfigMap to its generation. If the head of the ConfigMap cannot be read, the
// generation does not belong to a cluster, and is deleted like the copy of a removed link. Because
// the caller may reuse the object, add does not retain any of the object's strings.
func (g generations) add(o metav1.Object) {
	labels := o.GetLabels()
	if labels[clusterLabel] == "" || !strings.HasPrefix(o.GetName(), namePrefix) {
		return
	}
	id := labels[clusterLabel] + "/" + labels[generationLabel]
	one := g[id]
	if one == nil {
		one = new(generation)
		one.head, one.count, _ = readHead(o)
		g[id] = one
	}
	one.names = append(one.names, strings.Clone(o.GetName()))
}

// newestFirst returns a list of the generations, newest first.
func (g generations) newestFirst() []*generation {
	return slices.SortedFunc(maps.Values(g), func(a, b *generation) int { return b.Written.Compare(a.Written) })
}
