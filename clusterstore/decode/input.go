package decode

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
)

type input struct {
	*bufio.Reader
	api *api
	ctx context.Context
}

var buffers = sync.Pool{New: func() any { return new([maxSmall]byte) }}

// part reads an object and calls f with its bytes, which are valid only until f returns. If the
// object is too large, f receives an error and the beginning of the object.
func (in *input) part(size uint64, f func(data []byte, partial error) error) error {
	if size > maxFrame {
		return errFrame(size)
	}
	buffer := buffers.Get().(*[maxSmall]byte)
	defer buffers.Put(buffer)
	data := buffer[:min(size, maxSmall)]
	if size > maxSmall && size <= maxObject {
		release, err := in.hold()
		if err != nil {
			return err
		}
		defer release()
		data = make([]byte, size)
	}
	if _, err := io.ReadFull(in, data); err != nil {
		return unexpected(err)
	}
	if size <= maxObject {
		return f(data, nil)
	}
	if _, err := in.Discard(int(size) - len(data)); err != nil {
		return unexpected(err)
	}
	return f(data, tooLarge(size))
}

// The hold method waits until no other large object from the API server is in memory.
func (in *input) hold() (release func(), err error) {
	select {
	case in.api.large <- struct{}{}:
		return func() { <-in.api.large }, nil
	case <-in.ctx.Done():
		return nil, in.ctx.Err()
	}
}

// The fields method reads a message of the given size, one field at a time. For each field, the
// method passes the number and the size to f, which must read the field. If the input ends after a
// complete field, the result is io.EOF.
func (in *input) fields(left uint64, f func(number protowire.Number, size uint64) error) error {
	for left > 0 {
		tag, err := binary.ReadUvarint(in)
		if err != nil {
			return err
		}
		size, err := binary.ReadUvarint(in)
		if err != nil {
			return unexpected(err)
		}
		number, wire := protowire.DecodeTag(tag)
		head := uint64(protowire.SizeVarint(tag) + protowire.SizeVarint(size))
		if number < protowire.MinValidNumber || wire != protowire.BytesType || size > maxList || head+size > left {
			return errNoList
		}
		left -= head + size
		if err := f(number, size); err != nil {
			return err
		}
	}
	return nil
}

func (in *input) skip(size uint64) error {
	_, err := in.Discard(int(size))
	return unexpected(err)
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
