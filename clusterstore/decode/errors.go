package decode

import (
	"errors"
	"fmt"
)

// errNoKey is for what no API server sends: without its name it can't be shown which object is
// refused.
var errNoKey = errors.New("the API server sent an object without a name, or with one that no object can have: check that the server is an API server")

// tooLarge is why an object of that size is refused.
func tooLarge(size uint64) error {
	return fmt.Errorf("it is larger than %d MiB (%d bytes)", maxObject>>20, size)
}
