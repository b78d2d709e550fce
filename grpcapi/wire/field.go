package wire

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// onlyField is the number of the field in messages that wrap one value.
const onlyField protowire.Number = 1

// nested appends a field that is a message; body appends the fields of that message.
func nested(b []byte, field protowire.Number, body func([]byte) []byte) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	start := len(b)
	b = body(append(b, 0)) // most lengths take one byte
	n := len(b) - start - 1
	if n < 0x80 {
		b[start] = byte(n)
		return b
	}
	var buf [10]byte
	length := protowire.AppendVarint(buf[:0], uint64(n))
	b = append(b, length[1:]...) // make room, to move the body
	copy(b[start+len(length):], b[start+1:start+1+n])
	copy(b[start:], length)
	return b
}

// wrapped appends a field that is a message with one string.
func wrapped(b []byte, field protowire.Number, s string) []byte {
	return nested(b, field, func(b []byte) []byte { return appendText(b, onlyField, s) })
}

// appendText appends a string as valid UTF-8: proxies reject anything else.
func appendText(b []byte, field protowire.Number, s string) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendString(b, valid(s))
}

func appendNumber(b []byte, field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

func appendEmpty(b []byte, field protowire.Number) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.BytesType), 0)
}
