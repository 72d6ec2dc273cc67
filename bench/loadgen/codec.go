package main

import (
	"encoding/binary"
	"errors"
)

// Kafka's primitive types in their flexible ("compact") encoding; every API version used here is flexible.

var errShort = errors.New("answer ends inside a field")

type writer struct{ data []byte }

func (w *writer) i8(v int8)   { w.data = append(w.data, byte(v)) }
func (w *writer) i16(v int16) { w.data = binary.BigEndian.AppendUint16(w.data, uint16(v)) }
func (w *writer) i32(v int32) { w.data = binary.BigEndian.AppendUint32(w.data, uint32(v)) }
func (w *writer) i64(v int64) { w.data = binary.BigEndian.AppendUint64(w.data, uint64(v)) }

func (w *writer) uvarint(v uint64) { w.data = binary.AppendUvarint(w.data, v) }

// varint is zigzag-encoded, as in records.
func (w *writer) varint(v int64) { w.data = binary.AppendVarint(w.data, v) }

func (w *writer) str(v string) {
	w.uvarint(uint64(len(v)) + 1)
	w.data = append(w.data, v...)
}

func (w *writer) optional(v *string) {
	if v == nil {
		w.uvarint(0)
		return
	}
	w.str(*v)
}

func (w *writer) bytes(v []byte) {
	w.uvarint(uint64(len(v)) + 1)
	w.data = append(w.data, v...)
}

func (w *writer) count(n int) { w.uvarint(uint64(n) + 1) }
func (w *writer) tags()       { w.data = append(w.data, 0) }

// reader parses one answer. After the first field that does not fit, failed is set and every value is zero.
type reader struct {
	data   []byte
	at     int
	failed bool
}

func (r *reader) take(n int) []byte {
	if r.failed || n < 0 || len(r.data)-r.at < n {
		r.failed = true
		return nil
	}
	part := r.data[r.at : r.at+n]
	r.at += n
	return part
}

func (r *reader) i8() int8 {
	if b := r.take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (r *reader) i16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) i32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) i64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	if r.failed {
		return 0
	}
	v, n := binary.Uvarint(r.data[r.at:])
	if n <= 0 {
		r.failed = true
		return 0
	}
	r.at += n
	return v
}

// raw is a compact string or byte array; nil for null.
func (r *reader) raw() []byte {
	n := r.uvarint()
	if n == 0 {
		return nil
	}
	if n > uint64(len(r.data)) {
		r.failed = true
		return nil
	}
	return r.take(int(n - 1))
}

func (r *reader) str() string { return string(r.raw()) }

// count of a compact array; a null array counts 0.
func (r *reader) count() int {
	n := r.uvarint()
	if n == 0 || n > uint64(len(r.data)) {
		if n != 0 {
			r.failed = true
		}
		return 0
	}
	return int(n - 1)
}

// tags skips tagged fields.
func (r *reader) tags() {
	for n := r.uvarint(); n > 0 && !r.failed; n-- {
		r.uvarint()
		r.take(int(r.uvarint()))
	}
}

func (r *reader) end() error {
	if r.failed {
		return errShort
	}
	return nil
}
