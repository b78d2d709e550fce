package externalworkload

import (
	"cmp"
	"maps"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// chunk is endpoints that have no slice yet and are put into one together.
type chunk struct {
	group     *group
	endpoints []discoveryv1.Endpoint
	from      *packed // the spare slice that has its first endpoint; nil: none
	fits      *packed // an unchanged slice that has room for all of it; nil: none
}

// chunks divides what is left of the groups into as few chunks as possible. Endpoints
// that are together in a spare slice, under other ports, stay together: so when the
// ports of a Service change, a workload gets its new ports by one write.
func (pk *packing) chunks() (list []chunk) {
	home := make(map[string]int) // workload → index of the spare slice that has it
	for i, x := range pk.spare {
		for j := range x.slice.Endpoints {
			name := workloadOf(x.slice, &x.slice.Endpoints[j])
			if _, ok := home[name]; !ok {
				home[name] = i
			}
		}
	}
	homeOf := func(name string) int {
		if i, ok := home[name]; ok {
			return i
		}
		return len(pk.spare)
	}
	for _, key := range pk.keys {
		g := pk.groups[key]
		names := slices.SortedFunc(maps.Keys(g.endpoints), func(a, b string) int {
			return cmp.Or(cmp.Compare(homeOf(a), homeOf(b)), cmp.Compare(a, b))
		})
		for part := range slices.Chunk(names, maxEndpoints) {
			c := chunk{group: g}
			for _, name := range part {
				c.endpoints = append(c.endpoints, g.endpoints[name])
			}
			if i := homeOf(part[0]); i < len(pk.spare) {
				c.from = pk.spare[i]
			}
			if len(part) < maxEndpoints {
				c.fits = pk.fullest(g, len(part))
			}
			list = append(list, c)
		}
	}
	return list
}

// fullest returns the unchanged slice of a group with the least room of those with
// room for n more endpoints; nil: there is none.
func (pk *packing) fullest(g *group, n int) (best *packed) {
	for _, x := range pk.unchanged {
		if x.group == g && x.room() >= n && (best == nil || x.room() < best.room()) {
			best = x
		}
	}
	return best
}

// place gives each chunk a slice: a spare one, since that must be written anyway; or
// else an unchanged one that has room; or else a new one.
func (pk *packing) place(list []chunk) {
	// Chunks that no unchanged slice can take come first, in case there are too few
	// spare ones.
	slices.SortStableFunc(list, func(a, b chunk) int {
		switch {
		case (a.fits == nil) == (b.fits == nil):
			return 0
		case a.fits == nil:
			return -1
		}
		return 1
	})
	placed := make([]bool, len(list))
	for i, c := range list[:min(len(list), len(pk.spare))] {
		placed[i] = c.from != nil && pk.reuse(c.from, c)
	}
	for i, c := range list {
		switch {
		case placed[i]:
		case len(pk.spare) > 0:
			pk.reuse(pk.spare[0], c)
		case c.fits != nil:
			c.fits.endpoints = append(c.fits.endpoints, c.endpoints...)
			pk.updated = append(pk.updated, c.fits)
		default:
			pk.created = append(pk.created, &packed{group: c.group, endpoints: c.endpoints})
		}
	}
}

// reuse puts a chunk into a slice, if that is still spare.
func (pk *packing) reuse(x *packed, c chunk) bool {
	i := slices.Index(pk.spare, x)
	if i < 0 {
		return false
	}
	pk.spare = slices.Delete(pk.spare, i, i+1)
	x.group, x.endpoints = c.group, c.endpoints
	pk.updated = append(pk.updated, x)
	return true
}
