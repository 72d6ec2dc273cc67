package main

// ring is a queue of times that grows by doubling and never shrinks.
type ring struct {
	items      []int64
	head, size int
}

func (r *ring) len() int { return r.size }

func (r *ring) push(value int64) {
	if r.size == len(r.items) {
		grown := make([]int64, max(16, 2*len(r.items)))
		for n := 0; n < r.size; n++ {
			grown[n] = r.items[(r.head+n)%len(r.items)]
		}
		r.items, r.head = grown, 0
	}
	r.items[(r.head+r.size)%len(r.items)] = value
	r.size++
}

// pop of an empty ring is a bug of the caller.
func (r *ring) pop() int64 {
	if r.size == 0 {
		panic("pop of an empty ring")
	}
	value := r.items[r.head]
	r.head = (r.head + 1) % len(r.items)
	r.size--
	return value
}
