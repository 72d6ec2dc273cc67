package main

import "math/bits"

// histogram counts latencies in buckets of constant relative width, as HdrHistogram does: values below 128 ns are
// exact, above each power of two is cut into 64 parts, so a percentile is at most 1.6 % above the truth. Merging adds
// counts, so histograms of threads and of runs add up exactly.
type histogram struct {
	counts []uint64
	total  uint64
	sum    float64
	min    int64
	max    int64
}

const (
	exactBits  = 7 // values below 1<<exactBits have a bucket each
	halfParts  = 1 << (exactBits - 1)
	bucketsMax = (64-exactBits)*halfParts + 1<<exactBits
)

func newHistogram() *histogram { return &histogram{counts: make([]uint64, bucketsMax), min: -1} }

func bucketOf(value int64) int {
	if value < 0 {
		value = 0
	}
	width := bits.Len64(uint64(value))
	if width <= exactBits {
		return int(value)
	}
	shift := width - exactBits
	return shift*halfParts + int(value>>shift)
}

// highest value that falls into a bucket
func highestIn(bucket int) int64 {
	if bucket < 1<<exactBits {
		return int64(bucket)
	}
	shift := bucket/halfParts - 1
	return (int64(bucket-shift*halfParts)+1)<<shift - 1
}

func (h *histogram) record(value int64) {
	h.counts[bucketOf(value)]++
	h.total++
	h.sum += float64(value)
	if value > h.max {
		h.max = value
	}
	if h.min < 0 || value < h.min {
		h.min = value
	}
}

func (h *histogram) merge(other *histogram) {
	for bucket, count := range other.counts {
		h.counts[bucket] += count
	}
	h.total += other.total
	h.sum += other.sum
	if other.max > h.max {
		h.max = other.max
	}
	if other.total > 0 && (h.min < 0 || other.min < h.min) {
		h.min = other.min
	}
}

// percentile returns the upper edge of the smallest bucket which at least this share of the values does not exceed.
func (h *histogram) percentile(share float64) int64 {
	if h.total == 0 {
		return 0
	}
	wanted := uint64(share*float64(h.total) + 0.999999)
	if wanted < 1 {
		wanted = 1
	}
	var seen uint64
	for bucket, count := range h.counts {
		if seen += count; seen >= wanted {
			if high := highestIn(bucket); high < h.max {
				return high
			}
			break
		}
	}
	return h.max
}

type latency struct {
	P50  float64     `json:"p50"`
	P90  float64     `json:"p90"`
	P99  float64     `json:"p99"`
	P999 float64     `json:"p999"`
	Max  float64     `json:"max"`
	Mean float64     `json:"mean"`
	Rows [][2]uint64 `json:"buckets"` // highest ns of the bucket, count; empty ones left out
}

// summary in microseconds; nil when nothing was recorded, because 0 would be wrong.
func (h *histogram) summary() *latency {
	if h.total == 0 {
		return nil
	}
	us := func(ns int64) float64 { return float64(ns) / 1000 }
	s := &latency{
		P50: us(h.percentile(0.5)), P90: us(h.percentile(0.9)), P99: us(h.percentile(0.99)),
		P999: us(h.percentile(0.999)), Max: us(h.max), Mean: h.sum / float64(h.total) / 1000,
	}
	for bucket, count := range h.counts {
		if count > 0 {
			s.Rows = append(s.Rows, [2]uint64{uint64(highestIn(bucket)), count})
		}
	}
	return s
}
