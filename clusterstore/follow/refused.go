package follow

// RefusedObject is an object that could not be decoded: it is too large, or beyond a bound. What was
// read of it before stays.
type RefusedObject struct {
	Resource string
	Key      string // as [JoinKey] makes it
	Why      string // fit to be shown
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
