package main

import "encoding/binary"

// Parsers of answers, which begin at the response header. Each returns the first error code that is not 0.

type joinAnswer struct {
	code       int16
	generation int32
	leader, id string
	members    []string
}

// body returns what follows response header 1.
func body(frame []byte) *reader {
	r := &reader{data: frame, at: 4}
	r.tags()
	return r
}

func readJoin(frame []byte) (joinAnswer, error) {
	r := body(frame)
	r.i32()
	a := joinAnswer{code: r.i16(), generation: r.i32()}
	r.raw()
	r.raw()
	a.leader = r.str()
	r.i8()
	a.id = r.str()
	for n := r.count(); n > 0 && !r.failed; n-- {
		a.members = append(a.members, r.str())
		r.raw()
		r.raw()
		r.tags()
	}
	return a, r.end()
}

// readSync, readHeartbeat and readLeave have their code at the same place.
func readSimple(frame []byte) (int16, error) {
	r := body(frame)
	r.i32()
	code := r.i16()
	return code, r.end()
}

func readCommit(frame []byte) (int16, error) {
	r := body(frame)
	r.i32()
	var worst int16
	for topics := r.count(); topics > 0 && !r.failed; topics-- {
		r.raw()
		for n := r.count(); n > 0 && !r.failed; n-- {
			r.i32()
			if code := r.i16(); code != 0 {
				worst = code
			}
			r.tags()
		}
		r.tags()
	}
	return worst, r.end()
}

// noOffset is our code for a partition that should have a committed offset and has none; Kafka has no such code.
const noOffset = -1000

func readOffsetFetch(frame []byte) (int16, error) {
	r := body(frame)
	r.i32()
	var worst int16
	for groups := r.count(); groups > 0 && !r.failed; groups-- {
		r.raw()
		for topics := r.count(); topics > 0 && !r.failed; topics-- {
			r.raw()
			for n := r.count(); n > 0 && !r.failed; n-- {
				r.i32()
				if r.i64() < 0 {
					worst = noOffset
				}
				r.i32()
				r.raw()
				if code := r.i16(); code != 0 {
					worst = code
				}
				r.tags()
			}
			r.tags()
		}
		if code := r.i16(); code != 0 {
			worst = code
		}
		r.tags()
	}
	return worst, r.end()
}

func readProduce(frame []byte) (int16, error) {
	r := body(frame)
	var worst int16
	for topics := r.count(); topics > 0 && !r.failed; topics-- {
		r.raw()
		for n := r.count(); n > 0 && !r.failed; n-- {
			r.i32()
			if code := r.i16(); code != 0 {
				worst = code
			}
			r.take(24)
			for errors := r.count(); errors > 0 && !r.failed; errors-- {
				r.i32()
				r.raw()
				r.tags()
			}
			r.raw()
			r.tags()
		}
		r.tags()
	}
	return worst, r.end()
}

type fetchAnswer struct {
	code    int16
	high    int64
	next    int64
	records int64
	bytes   int64
}

// readFetch reads an answer about one partition and counts whole batches; next is -1 when there is none.
func readFetch(frame []byte) (fetchAnswer, error) {
	r := body(frame)
	r.i32()
	a := fetchAnswer{code: r.i16(), next: -1}
	r.i32()
	for topics := r.count(); topics > 0 && !r.failed; topics-- {
		r.raw()
		for n := r.count(); n > 0 && !r.failed; n-- {
			r.i32()
			if code := r.i16(); code != 0 {
				a.code = code
			}
			a.high = r.i64()
			r.take(16)
			for aborted := r.count(); aborted > 0 && !r.failed; aborted-- {
				r.take(16)
				r.tags()
			}
			r.i32()
			a.countBatches(r.raw())
			r.tags()
		}
		r.tags()
	}
	return a, r.end()
}

const batchHeaderBytes = 61

func (a *fetchAnswer) countBatches(records []byte) {
	for len(records) >= batchHeaderBytes {
		size := 12 + int(binary.BigEndian.Uint32(records[8:]))
		if size > len(records) || size < batchHeaderBytes {
			return
		}
		base := int64(binary.BigEndian.Uint64(records))
		a.next = base + int64(binary.BigEndian.Uint32(records[23:])) + 1
		a.records += int64(binary.BigEndian.Uint32(records[57:]))
		a.bytes += int64(size)
		records = records[size:]
	}
}

type coordinator struct {
	code    int16
	node    int32
	address string
}

func readFind(frame []byte) (map[string]coordinator, error) {
	r := body(frame)
	r.i32()
	found := map[string]coordinator{}
	for n := r.count(); n > 0 && !r.failed; n-- {
		key, node, host, port := r.str(), r.i32(), r.str(), r.i32()
		found[key] = coordinator{code: r.i16(), node: node, address: joinHostPort(host, port)}
		r.raw()
		r.tags()
	}
	return found, r.end()
}

// readMetadata returns partition -> address of its leader; a partition without leader is absent.
func readMetadata(frame []byte) (map[int32]string, error) {
	r := body(frame)
	r.i32()
	brokers, leaders := map[int32]string{}, map[int32]string{}
	for n := r.count(); n > 0 && !r.failed; n-- {
		node, host, port := r.i32(), r.str(), r.i32()
		brokers[node] = joinHostPort(host, port)
		r.raw()
		r.tags()
	}
	r.raw()
	r.i32()
	for topics := r.count(); topics > 0 && !r.failed; topics-- {
		r.i16()
		r.raw()
		r.i8()
		for n := r.count(); n > 0 && !r.failed; n-- {
			r.i16()
			partition, leader := r.i32(), r.i32()
			r.i32()
			for lists := 0; lists < 3; lists++ {
				r.take(4 * r.count())
			}
			r.tags()
			if address, known := brokers[leader]; known {
				leaders[partition] = address
			}
		}
		r.i32()
		r.tags()
	}
	return leaders, r.end()
}
