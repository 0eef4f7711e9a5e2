package main

import (
	"math/bits"
	"sync/atomic"
)

const (
	subBits = 6 // 64 buckets for each power of two: 1.6 % apart
	buckets = 40 << subBits
)

// histogram counts times in microseconds. Goroutines may add at the same time.
type histogram struct {
	counts [buckets]atomic.Int64
	most   atomic.Int64
}

func bucketOf(micros int64) int {
	power := max(bits.Len64(uint64(micros))-subBits-1, 0)
	return min(power<<subBits+int(micros>>power), buckets-1)
}

// bucketEnd is the largest time of a bucket.
func bucketEnd(bucket int) int64 {
	power := max(bucket>>subBits-1, 0)
	return (int64(bucket-power<<subBits)+1)<<power - 1
}

func (h *histogram) add(micros int64) {
	micros = max(micros, 0)
	h.counts[bucketOf(micros)].Add(1)
	for most := h.most.Load(); micros > most && !h.most.CompareAndSwap(most, micros); most = h.most.Load() {
	}
}

func (h *histogram) count() (sum int64) {
	for i := range h.counts {
		sum += h.counts[i].Load()
	}
	return sum
}

// quantile is a time that so many of a thousand do not exceed. Zero if there is none.
func (h *histogram) quantile(permille int64) int64 {
	sum, most := h.count(), h.most.Load()
	for i, seen := 0, int64(0); i < buckets; i++ {
		seen += h.counts[i].Load()
		if seen*1000 >= sum*permille {
			return min(bucketEnd(i), most)
		}
	}
	return most
}
