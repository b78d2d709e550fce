package follow

import (
	"cmp"
	"slices"

	"isthmus/internal/legible"
)

const (
	// maxRefusedText is how much of the reason is kept why an object is refused, in bytes.
	maxRefusedText = 200
	// shownRefused is how many refused objects of a resource its health names.
	shownRefused = 3
)

// RefusedObject is an object that could not be decoded: it is too large, or beyond a bound. What was
// read of it before stays.
type RefusedObject struct {
	Resource string
	Key      string // as [JoinKey] makes it
	Why      string // fit to be shown
}

// refusedText returns why an object is refused, to be kept. It is not empty.
func (r *Resource) refusedText(why error) string {
	return legible.Beginning(cmp.Or(r.group.options.Printable(why).Error(), "it can't be decoded"), maxRefusedText)
}

// refusedKey is what an object that is refused is charged by. No object has such a key: decode lets no name
// with a slash pass.
func refusedKey(key string) string { return "//" + key }

// refusedEntrySize is what an entry of Resource.unusable takes besides its texts, in bytes.
const refusedEntrySize = 128

// refusedSize is what the memory cap counts for an object that is refused, in bytes.
func refusedSize(key, why string) int64 {
	return objectSize + refusedEntrySize + int64(len(key)+len(why))
}

// setRefused records which objects of a list are refused, and returns those of before.
func (r *Resource) setRefused(all map[string]string) (before map[string]string) {
	r.group.mu.Lock()
	defer r.group.mu.Unlock()
	before, r.unusable = r.unusable, all
	return before
}

// noteRefused records that an object is refused; empty: it is not.
func (r *Resource) noteRefused(key, why string) {
	r.group.mu.Lock()
	defer r.group.mu.Unlock()
	if why == "" {
		delete(r.unusable, key)
		return
	}
	if r.unusable == nil {
		r.unusable = make(map[string]string)
	}
	r.unusable[key] = why
}

// refusedObjects returns how many objects are refused, and a few of them. group.mu is held.
func (r *Resource) refusedObjects() (n int, some []RefusedObject) {
	var keys []string // the first ones, in order
	for key := range r.unusable {
		if at, _ := slices.BinarySearch(keys, key); at < shownRefused {
			keys = slices.Insert(keys, at, key)
			keys = keys[:min(len(keys), shownRefused)]
		}
	}
	for _, key := range keys {
		some = append(some, RefusedObject{r.name, key, r.unusable[key]})
	}
	return len(r.unusable), some
}

// forgive records that an object is no longer refused.
func (f *feed[O, T]) forgive(key string) {
	f.kept.drop(refusedKey(key), nil)
	f.resource.noteRefused(key, "")
}

// keepRefused records which objects of a list are refused, which have been staged.
func (f *feed[O, T]) keepRefused(all map[string]string) {
	for key := range f.resource.setRefused(all) {
		f.kept.drop(refusedKey(key), nil)
	}
	for key, why := range all {
		f.kept.keep(refusedKey(key), refusedSize(key, why), nil, nil)
	}
	f.kept.unstageAll()
}
