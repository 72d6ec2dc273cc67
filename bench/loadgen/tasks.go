package main

import (
	"encoding/binary"
	"hash/crc32"
	"time"
)

// task makes the requests of one connection and reads their answers. Frames are made once and only patched after,
// so that the generator's own cost stays small beside a server's.
type task interface {
	// next appends one request to out.
	next(out []byte, id int32) []byte
	take(answer []byte) (outcome, error)
}

type outcome struct {
	code           int16
	records, bytes int64
}

// fixed sends the same frame every time; records and bytes are the amounts that one successful answer counts for.
type fixed struct {
	frame          []byte
	read           func([]byte) (int16, error)
	records, bytes int64
}

func (t *fixed) next(out []byte, id int32) []byte {
	setCorrelation(t.frame, id)
	return append(out, t.frame...)
}

func (t *fixed) take(answer []byte) (outcome, error) {
	code, err := t.read(answer)
	if code != 0 || err != nil {
		return outcome{code: code}, err
	}
	return outcome{records: t.records, bytes: t.bytes}, nil
}

// committing raises its offsets with each commit, as a consumer does.
type committing struct {
	frame  []byte
	places []int
	offset int64
}

func (t *committing) next(out []byte, id int32) []byte {
	t.offset++
	setCorrelation(t.frame, id)
	for _, at := range t.places {
		binary.BigEndian.PutUint64(t.frame[at:], uint64(t.offset))
	}
	return append(out, t.frame...)
}

func (t *committing) take(answer []byte) (outcome, error) {
	code, err := readCommit(answer)
	return outcome{code: code}, err
}

// fetching reads a partition from start to end repeatedly; one request in flight, because its offset depends on the
// previous answer.
type fetching struct {
	frame    []byte
	offsetAt int
	offset   int64
}

func (t *fetching) next(out []byte, id int32) []byte {
	setCorrelation(t.frame, id)
	binary.BigEndian.PutUint64(t.frame[t.offsetAt:], uint64(t.offset))
	return append(out, t.frame...)
}

func (t *fetching) take(answer []byte) (outcome, error) {
	a, err := readFetch(answer)
	if err != nil || a.code != 0 {
		return outcome{code: a.code}, err
	}
	if a.next >= 0 {
		t.offset = a.next
	}
	if t.offset >= a.high {
		t.offset = 0
	}
	return outcome{records: a.records, bytes: a.bytes}, nil
}

// recordBatch is one uncompressed RecordBatch v2 of equal records without keys.
func recordBatch(records, valueBytes int) []byte {
	value := make([]byte, valueBytes)
	for n := range value {
		value[n] = byte('a' + n%26)
	}
	entries := &writer{}
	for n := 0; n < records; n++ {
		one := &writer{}
		one.i8(0)
		one.varint(0)
		one.varint(int64(n))
		one.varint(-1)
		one.varint(int64(valueBytes))
		one.data = append(one.data, value...)
		one.varint(0)
		entries.varint(int64(len(one.data)))
		entries.data = append(entries.data, one.data...)
	}
	now := time.Now().UnixMilli()
	checked := &writer{}
	checked.i16(0)
	checked.i32(int32(records - 1))
	checked.i64(now)
	checked.i64(now)
	checked.i64(-1)
	checked.i16(-1)
	checked.i32(-1)
	checked.i32(int32(records))
	checked.data = append(checked.data, entries.data...)
	batch := &writer{}
	batch.i64(0)
	batch.i32(int32(9 + len(checked.data)))
	batch.i32(-1)
	batch.i8(2)
	batch.i32(int32(crc32.Checksum(checked.data, crc32.MakeTable(crc32.Castagnoli))))
	batch.data = append(batch.data, checked.data...)
	return batch.data
}
