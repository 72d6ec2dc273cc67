package main

import (
	"math/rand"
	"sort"
	"testing"
)

func TestEveryValueFallsIntoABucketWhoseEdgeIsAtMostTwoPercentAbove(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	last := -1
	for value := int64(0); value < 1<<14; value++ {
		bucket := bucketOf(value)
		if bucket < last || bucket > last+1 {
			t.Fatalf("value %d: bucket %d follows %d", value, bucket, last)
		}
		last = bucket
	}
	for n := 0; n < 100_000; n++ {
		value := random.Int63() >> uint(random.Intn(62))
		high := highestIn(bucketOf(value))
		if high < value || float64(high) > 1.016*float64(value)+1 {
			t.Fatalf("value %d has the edge %d", value, high)
		}
	}
}

func TestPercentilesAreThoseOfTheSortedValues(t *testing.T) {
	random := rand.New(rand.NewSource(2))
	h, values := newHistogram(), []int64{}
	for n := 0; n < 10_000; n++ {
		value := int64(random.ExpFloat64() * 1e6)
		h.record(value)
		values = append(values, value)
	}
	sort.Slice(values, func(a, b int) bool { return values[a] < values[b] })
	for _, share := range []float64{0.5, 0.9, 0.99, 0.999} {
		exact := values[int(share*float64(len(values)))-1]
		got := h.percentile(share)
		if got < exact || float64(got) > 1.016*float64(exact)+1 {
			t.Errorf("percentile %v: %d, exactly %d", share, got, exact)
		}
	}
	if h.percentile(1) != values[len(values)-1] || h.max != values[len(values)-1] || h.min != values[0] {
		t.Error("the extremes are exact")
	}
}

func TestMergingIsTheSameAsRecordingIntoOne(t *testing.T) {
	one, first, second := newHistogram(), newHistogram(), newHistogram()
	for n := int64(1); n < 1000; n++ {
		one.record(n * n)
		if n%3 == 0 {
			first.record(n * n)
		} else {
			second.record(n * n)
		}
	}
	first.merge(second)
	first.merge(newHistogram())
	for bucket := range one.counts {
		if one.counts[bucket] != first.counts[bucket] {
			t.Fatalf("bucket %d: %d and %d", bucket, one.counts[bucket], first.counts[bucket])
		}
	}
	if one.total != first.total || one.max != first.max || one.min != first.min || one.sum != first.sum {
		t.Error("totals differ")
	}
}

func TestNothingRecordedIsNotZero(t *testing.T) {
	if newHistogram().summary() != nil {
		t.Error("an empty histogram has no percentiles")
	}
}
