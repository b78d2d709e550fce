package copies

import (
	"bytes"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus/clusterstore"
	"isthmus/federation"
)

// TestPack packs copies of several sizes into valid ConfigMaps, and unpacks them in any order.
func TestPack(t *testing.T) {
	for _, name := range []federation.ClusterName{
		"east", "East_1", "a.b", "-", "ü", "east/../north",
		federation.ClusterName(strings.Repeat("x", 63)), federation.ClusterName(strings.Repeat("x", 300)),
	} {
		for _, size := range []int{1, maxPart - 1, maxPart, maxPart + 1, 3*maxPart + 5} {
			c := clusterstore.Copy{
				Cluster: name, Identity: "uid", Server: "api.example/path", Lost: time.Now(),
				Lists: map[string][]byte{
					"services":       []byte("abc"),
					"endpointslices": random(size),
					"pods":           random(10),
				},
			}
			list := pack(c, time.Now())
			for _, m := range list {
				if e := validation.IsDNS1123Subdomain(m.Name); len(e) > 0 {
					t.Errorf("name %q: %q", m.Name, e)
				}
				for _, v := range m.Labels {
					if e := validation.IsValidLabelValue(v); len(e) > 0 {
						t.Errorf("label %q: %q", v, e)
					}
				}
				n := 0
				for key, data := range m.BinaryData {
					n += len(key) + len(data)
				}
				if n > 1<<20 {
					t.Errorf("%d bytes", n)
				}
			}
			list[0], list[len(list)-1] = list[len(list)-1], list[0]
			got, err := unpack(list)
			if err != nil || got.Cluster != name || !got.Lost.Equal(c.Lost) ||
				!maps.EqualFunc(got.Lists, c.Lists, bytes.Equal) {
				t.Errorf("%q, %d bytes: %v", name, size, err)
			}
		}
	}
}

// Different clusters have different names and labels.
func TestSlug(t *testing.T) {
	seen := make(map[string]federation.ClusterName)
	for _, name := range []federation.ClusterName{"east", "East", "EAST", "e_ast", "e-ast", "", "local", "a.b", "a-b"} {
		s := slug(name)
		if other, ok := seen[s]; ok {
			t.Errorf("%q and %q are both %q", name, other, s)
		}
		seen[s] = name
	}
	if seen["east"] != "east" || seen["a.b"] != "a.b" {
		t.Errorf("slugs %v", seen)
	}
}

// FuzzUnpack: whatever ConfigMaps contain, unpack does not panic, and returns only what the checksum covers.
func FuzzUnpack(f *testing.F) {
	c := clusterstore.Copy{
		Cluster: "east",
		Server:  "api",
		Lost:    time.Unix(1, 0),
		Lists:   map[string][]byte{"pods": []byte("x")},
	}
	m := pack(c, time.Unix(2, 0))[0]
	good := m.Annotations[headAnnotation]
	f.Add(good, "1", "pods", []byte("x"), good, "1")
	f.Add(good, "2", "pods", []byte("x"), strings.Replace(good, `"part":1`, `"part":2`, 1), "2")
	f.Add(strings.Replace(good, `"part":1`, `"part":-1`, 1), "1", "", []byte(nil), "{", "9999999999999999999")
	f.Add(`{"cluster":"east","part":1e99}`, "1", "pods", []byte("x"), `[]`, "")
	f.Fuzz(func(t *testing.T, head1, count1, key string, data []byte, head2, count2 string) {
		one := func(head, count string) *corev1.ConfigMap {
			made := m.DeepCopy()
			made.Annotations[headAnnotation] = head
			made.Labels[countLabel] = count
			made.BinaryData = map[string][]byte{key: data}
			return made
		}
		parts := []*corev1.ConfigMap{one(head1, count1), one(head2, count2)}
		all := make(generations)
		for _, list := range [][]*corev1.ConfigMap{parts, parts[:1], nil} {
			for _, part := range list {
				all.add(part)
			}
			got, err := unpack(list)
			switch {
			case err != nil && got != nil, err == nil && got == nil:
				t.Errorf("%v, %v", got, err)
			case err != nil:
			case !strings.Contains(head1, checksum(got)):
				t.Error("the checksum is not that of the annotation")
			}
		}
		if n := len(all.newestFirst()); n > 1 {
			t.Errorf("%d generations", n)
		}
	})
}
