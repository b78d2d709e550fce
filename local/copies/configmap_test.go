package copies

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus/clusterstore"
	"isthmus/federation"
)

// group returns the only generation that the given ConfigMaps belong to, and its parts.
func group(t *testing.T, list []*corev1.ConfigMap) (*generation, [][]byte) {
	t.Helper()
	all := make(generations)
	var parts [][]byte
	for _, m := range list {
		all.add(m)
		parts = append(parts, m.BinaryData[partKey])
	}
	if len(all) != 1 {
		t.Fatalf("%d generations", len(all))
	}
	return slices.Collect(maps.Values(all))[0], parts
}

// TestPack packs copies of several sizes into valid ConfigMaps, and unpacks them.
func TestPack(t *testing.T) {
	for _, name := range []federation.ClusterName{
		"east", "East_1", "a.b", "-", "ü", "east/../north",
		federation.ClusterName(strings.Repeat("x", 63)), federation.ClusterName(strings.Repeat("x", 300)),
	} {
		for _, size := range []int{1, maxPart - 100, maxPart, 12*maxPart + 5} {
			c := &clusterstore.Copy{
				CopiedCluster: clusterstore.CopiedCluster{
					Cluster: name, Identity: "uid", Server: "api.example/path", Lost: time.Now(),
				},
				Lists: map[string][]byte{
					"services":       []byte("abc"),
					"endpointslices": random(size),
					"pods":           random(10),
				},
			}
			h, list := pack(c, time.Now())
			for _, m := range list {
				if e := validation.IsDNS1123Subdomain(m.Name); len(e) > 0 {
					t.Errorf("name %q: %q", m.Name, e)
				}
				for _, v := range m.Labels {
					if e := validation.IsValidLabelValue(v); len(e) > 0 {
						t.Errorf("label %q: %q", v, e)
					}
				}
				if n := m.Size(); n > 1<<20 {
					t.Errorf("%d bytes", n)
				}
			}
			g, parts := group(t, list)
			if !slices.IsSorted(g.names) || !g.complete() || g.Checksum != h.Checksum || h.Bytes < size {
				t.Errorf("%q, %d bytes: %+v, and head %+v", name, size, g, h)
			}
			got, err := g.unpack(parts)
			if err != nil || got.Cluster != name || !got.Lost.Equal(c.Lost) ||
				!maps.EqualFunc(got.Lists, c.Lists, bytes.Equal) {
				t.Errorf("%q, %d bytes: %v", name, size, err)
			}
		}
	}
}

// TestForged checks that unpack rejects a forged copy that is much larger in memory than its data.
func TestForged(t *testing.T) {
	many := make(map[string][]byte)
	for i := range maxLists + 1 {
		many[fmt.Sprint(i)] = nil
	}
	for name, m := range map[string]*corev1.ConfigMap{
		"other field":  {ObjectMeta: metav1.ObjectMeta{ManagedFields: make([]metav1.ManagedFieldsEntry, 100)}},
		"text":         {Data: map[string]string{"pods": strings.Repeat("x", 200)}},
		"many entries": {BinaryData: many},
	} {
		data, err := m.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		g := generation{head: head{Checksum: fmt.Sprintf("%x", sha256.Sum256(data))}}
		if _, err := g.unpack([][]byte{data}); err == nil || !isUnusable(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestForgedHeads checks that the descriptions of forged ConfigMaps need little memory, however
// many there are.
func TestForgedHeads(t *testing.T) {
	all := make(generations)
	add := func(name, text string) {
		all.add(&metav1.ObjectMeta{
			Name:        namePrefix + name,
			Labels:      map[string]string{clusterLabel: "east"},
			Annotations: map[string]string{headAnnotation: text},
		})
	}
	for i := range 2 * maxGenerations {
		text := fmt.Sprintf(`{"cluster":"east","server":"%d%s","parts":1}`, i, strings.Repeat("x", 100+i%2*maxHead))
		add(fmt.Sprint(i), text)
	}
	for i := range 10 * maxParts {
		text := fmt.Sprintf(`{"cluster":"east","server":"0%s","parts":1}`, strings.Repeat("x", 100))
		add(fmt.Sprint("same-", i), text)
	}
	if len(all) != maxGenerations {
		t.Errorf("%d generations, want %d", len(all), maxGenerations)
	}
	for _, g := range all {
		if len(g.names) > maxParts+1 || len(g.Server) > maxHead || len(g.names) > 1 && g.complete() {
			t.Errorf("a generation has %d names and a server of %d bytes", len(g.names), len(g.Server))
		}
	}
}

// TestSlug checks that different clusters have different names and labels.
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

// FuzzGeneration checks that no ConfigMap can make add or unpack panic, and that unpack returns
// only data with the right checksum.
func FuzzGeneration(f *testing.F) {
	c := &clusterstore.Copy{Lists: map[string][]byte{"pods": []byte("x")}}
	c.Cluster = "east"
	_, list := pack(c, time.Unix(2, 0))
	good := list[0].Annotations[headAnnotation]
	f.Add(good, list[0].BinaryData[partKey], "east")
	f.Add(strings.Replace(good, `"parts":1`, `"parts":-1`, 1), []byte(nil), "east")
	f.Add(strings.Replace(good, `"bytes":`, `"bytes":-`, 1), []byte("x"), "east")
	f.Add(`{"cluster":"east","parts":1e99}`, []byte("x"), "north")
	garbled := []byte("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
	f.Add(fmt.Sprintf(`{"cluster":"east","parts":1,"checksum":"%x"}`, sha256.Sum256(garbled)), garbled, "east")
	f.Fuzz(func(t *testing.T, head string, data []byte, label string) {
		m := list[0].DeepCopy()
		m.Annotations[headAnnotation] = head
		m.Labels[clusterLabel] = label
		m.BinaryData[partKey] = data
		all := make(generations)
		all.add(m)
		all.add(m)
		for _, g := range all {
			got, err := g.unpack([][]byte{data})
			if g.Bytes < 0 || g.Bytes > maxParts*maxPart || g.Parts > maxParts || len(g.names) != 2 ||
				(got == nil) != (err != nil) {
				t.Errorf("%+v: %v, %v", g, got, err)
			}
			if got != nil && g.Checksum != fmt.Sprintf("%x", sha256.Sum256(data)) {
				t.Error("the checksum is wrong")
			}
		}
	})
}
