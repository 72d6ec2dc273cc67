package main

import "encoding/binary"

// Requests of a group's member, in the versions that Java's consumer and librdkafka use with a recent broker.

const (
	apiProduce, apiFetch, apiMetadata        = 0, 1, 3
	apiCommit, apiOffsetFetch, apiFind       = 8, 9, 10
	apiJoin, apiHeartbeat, apiLeave, apiSync = 11, 12, 13, 14
	correlationAt                            = 8 // 4 bytes of length, api key, api version
	sizeOfLength                             = 4
)

var versions = map[int16]int16{
	apiProduce: 9, apiFetch: 12, apiMetadata: 9, apiCommit: 9, apiOffsetFetch: 9, apiFind: 4,
	apiJoin: 9, apiHeartbeat: 4, apiLeave: 5, apiSync: 5,
}

// begin starts a frame of an API with request header 2; finish sets its length.
func begin(api int16) *writer {
	w := &writer{data: make([]byte, sizeOfLength, 256)}
	w.i16(api)
	w.i16(versions[api])
	w.i32(0)
	const client = "muster-loadgen"
	w.i16(int16(len(client)))
	w.data = append(w.data, client...)
	w.tags()
	return w
}

func (w *writer) finish() []byte {
	binary.BigEndian.PutUint32(w.data, uint32(len(w.data)-sizeOfLength))
	return w.data
}

func setCorrelation(frame []byte, id int32) {
	binary.BigEndian.PutUint32(frame[correlationAt:], uint32(id))
}

func findRequest(groups []string) []byte {
	w := begin(apiFind)
	w.i8(0)
	w.count(len(groups))
	for _, group := range groups {
		w.str(group)
	}
	w.tags()
	return w.finish()
}

func metadataRequest(topic string) []byte {
	w := begin(apiMetadata)
	w.count(1)
	w.str(topic)
	w.tags()
	w.i8(0)
	w.i8(0)
	w.i8(0)
	w.tags()
	return w.finish()
}

func joinRequest(m *member) []byte {
	w := begin(apiJoin)
	w.str(m.group)
	w.i32(m.sessionMs)
	w.i32(m.rebalanceMs)
	w.str(m.id)
	w.optional(m.instance)
	w.str("consumer")
	w.count(1)
	w.str("range")
	w.bytes(m.metadata)
	w.tags()
	w.optional(nil)
	w.tags()
	return w.finish()
}

func syncRequest(m *member, plan map[string][]byte) []byte {
	kind, protocol := "consumer", "range"
	w := begin(apiSync)
	w.str(m.group)
	w.i32(m.generation)
	w.str(m.id)
	w.optional(m.instance)
	w.optional(&kind)
	w.optional(&protocol)
	w.count(len(plan))
	for id, assignment := range plan {
		w.str(id)
		w.bytes(assignment)
		w.tags()
	}
	w.tags()
	return w.finish()
}

func heartbeatRequest(m *member) []byte {
	w := begin(apiHeartbeat)
	w.str(m.group)
	w.i32(m.generation)
	w.str(m.id)
	w.optional(m.instance)
	w.tags()
	return w.finish()
}

func leaveRequest(group string, members []*member) []byte {
	w := begin(apiLeave)
	w.str(group)
	w.count(len(members))
	for _, m := range members {
		w.str(m.id)
		w.optional(m.instance)
		w.optional(nil)
		w.tags()
	}
	w.tags()
	return w.finish()
}

// commitRequest also returns the positions of the offsets in the frame, so that they can be changed in place.
func commitRequest(m *member, topic string, first, partitions int) (frame []byte, offsetsAt []int) {
	w := begin(apiCommit)
	w.str(m.group)
	w.i32(m.generation)
	w.str(m.id)
	w.optional(m.instance)
	w.count(1)
	w.str(topic)
	w.count(partitions)
	none := ""
	for p := 0; p < partitions; p++ {
		w.i32(int32(first + p))
		offsetsAt = append(offsetsAt, len(w.data))
		w.i64(0)
		w.i32(-1)
		w.optional(&none)
		w.tags()
	}
	w.tags()
	w.tags()
	return w.finish(), offsetsAt
}

func offsetFetchRequest(m *member, topic string, partitions int) []byte {
	w := begin(apiOffsetFetch)
	w.count(1)
	w.str(m.group)
	w.optional(nil)
	w.i32(-1)
	w.count(1)
	w.str(topic)
	w.count(partitions)
	for p := 0; p < partitions; p++ {
		w.i32(int32(p))
	}
	w.tags()
	w.tags()
	w.i8(0)
	w.tags()
	return w.finish()
}

func produceRequest(topic string, partition int32, batch []byte) []byte {
	w := begin(apiProduce)
	w.optional(nil)
	w.i16(-1)
	w.i32(30_000)
	w.count(1)
	w.str(topic)
	w.count(1)
	w.i32(partition)
	w.bytes(batch)
	w.tags()
	w.tags()
	w.tags()
	return w.finish()
}

// fetchRequest reads one partition; the fetch offset is at the returned position.
func fetchRequest(topic string, partition int32, maxBytes int32) (frame []byte, offsetAt int) {
	w := begin(apiFetch)
	w.i32(-1)
	w.i32(500)
	w.i32(1)
	w.i32(maxBytes)
	w.i8(0)
	w.i32(0)
	w.i32(-1)
	w.count(1)
	w.str(topic)
	w.count(1)
	w.i32(partition)
	w.i32(-1)
	offsetAt = len(w.data)
	w.i64(0)
	w.i32(-1)
	w.i64(-1)
	w.i32(maxBytes)
	w.tags()
	w.tags()
	w.count(0)
	w.str("")
	w.tags()
	return w.finish(), offsetAt
}
