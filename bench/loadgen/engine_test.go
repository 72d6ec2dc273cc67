package main

import (
	"encoding/binary"
	"net"
	"testing"
	"time"
)

// slowServer echoes frames; after pauseAt of them it stops for pause, once.
func slowServer(t *testing.T, pauseAt int, pause time.Duration) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		buffer := make([]byte, 1<<16)
		frames := 0
		for {
			n, err := conn.Read(buffer)
			if err != nil {
				return
			}
			size := sizeOfLength + int(binary.BigEndian.Uint32(buffer))
			before := frames
			frames += n / size
			if before < pauseAt && frames >= pauseAt {
				time.Sleep(pause)
			}
			if _, err := conn.Write(buffer[:n]); err != nil {
				return
			}
		}
	}()
	return listener.Addr().String()
}

func drivenTally(t *testing.T, address string, config engineConfig, rate float64) *tally {
	t.Helper()
	c, err := dial(address)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := c.detach()
	if err != nil {
		t.Fatal(err)
	}
	config.echoed = true
	one := &connection{fd: fd, sealed: c.sealed, task: &fixed{frame: heartbeatRequest(newMember("group")), read: readSimple}}
	total, _, err := drive(config, []*connection{one}, 1, rate, processes{})
	if err != nil {
		t.Fatal(err)
	}
	return total
}

func TestAnOpenLoopChargesAStallToAllThatWereDueMeanwhile(t *testing.T) {
	const pause = 200 * time.Millisecond
	total := drivenTally(t, slowServer(t, 100, pause), engineConfig{depth: 1, window: time.Second}, 1000)
	// Of about 1,000 requests 200 were due in the pause, their waits spread evenly from 0 to 200 ms.
	if total.good < 990 || total.good > 1010 {
		t.Errorf("%d requests in one second at 1,000/s", total.good)
	}
	if p95 := time.Duration(total.latency.percentile(0.95)); p95 < pause/2 {
		t.Errorf("p95 %v hides the stall", p95)
	}
	if total.unanswered != 0 {
		t.Errorf("%d unanswered", total.unanswered)
	}
}

func TestAClosedLoopKeepsItsDepthAndCountsOnlyTheWindow(t *testing.T) {
	config := engineConfig{depth: 4, warmup: 50 * time.Millisecond, window: 100 * time.Millisecond}
	total := drivenTally(t, slowServer(t, 1<<40, 0), config, 0)
	if total.good == 0 || total.latency.total != total.good || len(total.errors) != 0 {
		t.Errorf("good %d, recorded %d, errors %v", total.good, total.latency.total, total.errors)
	}
}

func TestErrorsAreCountedByCodeAndGiveNoLatency(t *testing.T) {
	e := &engine{tally: newTally()}
	e.count(outcome{code: 25}, 1000)
	e.count(outcome{code: 25}, 1000)
	e.count(outcome{records: 3, bytes: 300}, 1000)
	if e.tally.errors[25] != 2 || e.tally.good != 1 || e.tally.latency.total != 1 || e.tally.records != 3 {
		t.Errorf("%+v", e.tally)
	}
}

func TestARingKeepsItsOrderWhileItGrows(t *testing.T) {
	r := &ring{}
	next, want := int64(0), int64(0)
	for round := 0; round < 50; round++ {
		for n := 0; n < 7; n++ {
			r.push(next)
			next++
		}
		for n := 0; n < 5; n++ {
			if got := r.pop(); got != want {
				t.Fatalf("%d instead of %d", got, want)
			}
			want++
		}
	}
	if r.len() != int(next-want) {
		t.Errorf("%d left, not %d", r.len(), next-want)
	}
}
