package main

import (
	"strconv"
	"time"
)

// result of a load, as JSON on standard output. Latencies in microseconds; null where nothing was measured.
type result struct {
	Op          string            `json:"op"`
	Connections int               `json:"connections"`
	Depth       int               `json:"depth"`
	OpenRate    float64           `json:"open_rate"` // 0: closed loop
	Seconds     float64           `json:"seconds"`
	PreparedS   float64           `json:"prepared_s"`
	Good        uint64            `json:"good"`
	Rate        float64           `json:"rate"`
	Records     float64           `json:"records_per_s"`
	Bytes       float64           `json:"bytes_per_s"`
	Errors      map[string]uint64 `json:"errors"` // by Kafka's code; -1000: a committed offset is missing
	Unanswered  uint64            `json:"unanswered"`
	LatencyUs   *latency          `json:"latency_us"`
	LagUs       *latency          `json:"lag_us"` // open loop: how late the generator itself sent
	CPUUs       map[string]int64  `json:"cpu_us"`
}

func makeResult(o *loadOptions, t *tally, used map[string]int64, prepared time.Duration) *result {
	seconds := o.window.Seconds()
	r := &result{
		Op: o.kind, Connections: o.connections, Depth: o.depth, OpenRate: o.rate, Seconds: seconds,
		PreparedS: prepared.Seconds(), Good: t.good, Rate: float64(t.good) / seconds,
		Records: float64(t.records) / seconds, Bytes: float64(t.bytes) / seconds, Errors: codes(t.errors),
		Unanswered: t.unanswered, LatencyUs: t.latency.summary(), LagUs: t.lag.summary(), CPUUs: used,
	}
	if r.LagUs != nil {
		r.LagUs.Rows = nil
	}
	return r
}

func codes(errors map[int16]uint64) map[string]uint64 {
	named := map[string]uint64{}
	for code, count := range errors {
		named[strconv.Itoa(int(code))] = count
	}
	return named
}
