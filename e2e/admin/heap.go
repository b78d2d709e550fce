package admin

import (
	"context"
	"errors"
	"regexp"
	"strconv"
)

var heapAlloc = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)

// Heap returns the bytes that are in use on a gateway's heap once it has collected its garbage, which this makes it do. It
// has to run with -enable-pprof.
func Heap(ctx context.Context, addr string) (int64, error) {
	var body string
	for range 3 { // what is kept for reuse goes only when it has not been used for a while
		var err error
		if body, err = Get(ctx, addr, "/debug/pprof/heap?gc=1&debug=1"); err != nil {
			return 0, err
		}
	}
	found := heapAlloc.FindStringSubmatch(body)
	if found == nil {
		return 0, errors.New("the heap profile has no line HeapAlloc")
	}
	return strconv.ParseInt(found[1], 10, 64)
}
