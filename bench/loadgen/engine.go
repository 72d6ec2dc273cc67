package main

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// An engine drives some connections from one thread, in one of two ways.
//
// Closed loop (interval 0): every connection keeps depth requests in flight; the next is sent when an answer comes. A
// latency begins when the request was written.
//
// Open loop: requests are due at a fixed interval, whatever the server does, and a latency begins when the request was
// due, not when it could be sent: a server that stalls is charged for everything that had to wait (no coordinated
// omission). How late the generator itself was is kept apart (lag).
//
// Counted are, in the closed loop, answers that come within the window; in the open loop, requests due within it.

const (
	readBytes     = 256 << 10
	inflightMax   = 100 // Kafka's and Muster's own bound of unanswered requests
	backlogMax    = 1 << 20
	drainAfter    = 10 * time.Second
	alarmKey      = -1
	idlePollMs    = 100
	frameBytesMax = 128 << 20
)

type engineConfig struct {
	depth    int
	interval int64 // ns between requests of this engine; 0: closed loop
	warmup   time.Duration
	window   time.Duration
	echoed   bool // the server sends back the bytes it got
}

type tally struct {
	latency, lag   *histogram
	good           uint64
	errors         map[int16]uint64
	unanswered     uint64
	records, bytes int64
}

func newTally() *tally {
	return &tally{latency: newHistogram(), lag: newHistogram(), errors: map[int16]uint64{}}
}

func (t *tally) merge(other *tally) {
	t.latency.merge(other.latency)
	t.lag.merge(other.lag)
	t.good += other.good
	t.unanswered += other.unanswered
	t.records += other.records
	t.bytes += other.bytes
	for code, count := range other.errors {
		t.errors[code] += count
	}
}

type connection struct {
	fd       int
	sealed   *sealed // nil: in the clear
	key      int
	task     task
	nextID   int32
	waitID   int32
	sent     ring // when answers count from
	backlog  ring // due but not sent, because too many are in flight
	in       []byte
	have     int
	out      []byte
	writable bool // waits for space in the socket's send buffer
}

type engine struct {
	engineConfig
	base        time.Time
	connections []*connection
	poll        *poller
	alarm       *alarm
	tally       *tally
	from, due   int64
	until       atomic.Int64 // another thread may set it to now
	turn        int
	stopped     bool
	inflight    int // unanswered, those that wait in a backlog included
}

func newEngine(config engineConfig, base time.Time, connections []*connection) (*engine, error) {
	poll, err := newPoller()
	if err != nil {
		return nil, err
	}
	e := &engine{engineConfig: config, base: base, connections: connections, poll: poll, tally: newTally()}
	for key, c := range connections {
		c.key, c.in = key, make([]byte, readBytes)
		if err := poll.watch(c.fd, key, false, syscall.EPOLL_CTL_ADD); err != nil {
			return nil, err
		}
	}
	if e.interval > 0 {
		if e.alarm, err = newAlarm(); err != nil {
			return nil, err
		}
		if err := poll.watch(e.alarm.fd, alarmKey, false, syscall.EPOLL_CTL_ADD); err != nil {
			return nil, err
		}
	}
	return e, nil
}

func (e *engine) now() int64 { return int64(time.Since(e.base)) }

// arm sets the window, counted from now.
func (e *engine) arm() {
	e.from = e.now() + int64(e.warmup)
	e.until.Store(e.from + int64(e.window))
}

// run blocks until the window of arm is over and its requests are answered.
func (e *engine) run() (*tally, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := e.begin(e.now()); err != nil {
		return nil, err
	}
	for {
		now := e.now()
		if now >= e.until.Load() && !e.stopped {
			e.stopped = true
		}
		if e.stopped && (e.inflight == 0 || now > e.until.Load()+int64(drainAfter)) {
			e.tally.unanswered += uint64(e.inflight)
			return e.tally, nil
		}
		events, err := e.poll.wait(idlePollMs)
		if err != nil {
			return nil, err
		}
		for _, event := range events {
			if err := e.serve(int(event.Fd), event.Events); err != nil {
				return nil, err
			}
		}
	}
}

func (e *engine) begin(now int64) error {
	if e.interval > 0 {
		e.due = now
		return e.alarm.in(1)
	}
	for _, c := range e.connections {
		for n := 0; n < e.depth; n++ {
			e.send(c, now)
		}
		if err := e.flush(c); err != nil {
			return err
		}
	}
	return nil
}

func (e *engine) serve(key int, events uint32) error {
	if key == alarmKey {
		return e.sendDue()
	}
	c := e.connections[key]
	if events&(syscall.EPOLLIN|syscall.EPOLLHUP|syscall.EPOLLERR) != 0 {
		if err := e.receive(c); err != nil {
			return err
		}
	}
	return e.flush(c)
}

// sendDue gives every due request to the next connection.
func (e *engine) sendDue() error {
	e.alarm.silence()
	now := e.now()
	for ; e.due <= now && e.due < e.until.Load(); e.due += e.interval {
		c := e.connections[e.turn%len(e.connections)]
		e.turn++
		if e.due >= e.from {
			e.tally.lag.record(now - e.due)
		}
		if c.sent.len() < inflightMax {
			e.send(c, e.due)
		} else if c.backlog.len() < backlogMax {
			c.backlog.push(e.due)
			e.inflight++
		} else {
			return fmt.Errorf("the server is so far behind the rate that %d requests wait", backlogMax)
		}
		if err := e.flush(c); err != nil {
			return err
		}
	}
	if e.due >= e.until.Load() {
		return nil
	}
	return e.alarm.in(e.due - e.now())
}

func (e *engine) send(c *connection, counted int64) {
	c.nextID++
	c.out = c.task.next(c.out, c.nextID)
	c.sent.push(counted)
	e.inflight++
}

func (e *engine) flush(c *connection) error {
	out := &c.out
	if c.sealed != nil {
		if len(c.out) > 0 {
			if _, err := c.sealed.conn.Write(c.out); err != nil {
				return err
			}
			c.out = c.out[:0]
		}
		out = &c.sealed.carrier.out
	}
	if len(*out) > 0 {
		n, err := writeSome(c.fd, *out)
		if err != nil {
			return err
		}
		*out = (*out)[:copy(*out, (*out)[n:])]
	}
	if waits := len(*out) > 0; waits != c.writable {
		c.writable = waits
		return e.poll.watch(c.fd, c.key, waits, syscall.EPOLL_CTL_MOD)
	}
	return nil
}

// receive what there is; of TLS all of it, as no event tells of what is read but not yet opened.
func (e *engine) receive(c *connection) error {
	if c.sealed == nil {
		n, err := readSome(c.fd, c.in[c.have:])
		if err != nil {
			return err
		}
		c.have += n
		return e.digest(c)
	}
	for {
		n, err := c.sealed.read(c.in[c.have:])
		if err != nil || n == 0 {
			return err
		}
		c.have += n
		if err := e.digest(c); err != nil {
			return err
		}
	}
}

// digest whole answers.
func (e *engine) digest(c *connection) error {
	now := e.now()
	at := 0
	for c.have-at >= sizeOfLength {
		size := int(binary.BigEndian.Uint32(c.in[at:]))
		if size < 4 || size > frameBytesMax {
			return fmt.Errorf("answer of %d bytes", size)
		}
		if c.have-at < sizeOfLength+size {
			if sizeOfLength+size > len(c.in) {
				grown := make([]byte, 2*(sizeOfLength+size))
				copy(grown, c.in[:c.have])
				c.in = grown
			}
			break
		}
		if err := e.answered(c, c.in[at+sizeOfLength:at+sizeOfLength+size], now); err != nil {
			return err
		}
		at += sizeOfLength + size
	}
	if at > 0 {
		c.have = copy(c.in, c.in[at:c.have])
	}
	return nil
}

func (e *engine) answered(c *connection, answer []byte, now int64) error {
	idAt := 0
	if e.echoed {
		idAt = correlationAt - sizeOfLength
	}
	c.waitID++
	if got := int32(binary.BigEndian.Uint32(answer[idAt:])); got != c.waitID {
		return fmt.Errorf("answer %d came where %d was due", got, c.waitID)
	}
	counted := c.sent.pop()
	e.inflight--
	var result outcome
	if !e.echoed {
		var err error
		if result, err = c.task.take(answer); err != nil {
			return err
		}
	}
	moment := now
	if e.interval > 0 {
		moment = counted
	}
	if moment >= e.from && moment < e.until.Load() {
		e.count(result, now-counted)
	}
	if e.interval > 0 {
		if c.backlog.len() > 0 {
			e.inflight--
			e.send(c, c.backlog.pop())
		}
	} else if !e.stopped && now < e.until.Load() {
		e.send(c, now)
	}
	return nil
}

func (e *engine) count(result outcome, latency int64) {
	if result.code != 0 {
		e.tally.errors[result.code]++
		return
	}
	e.tally.good++
	e.tally.records += result.records
	e.tally.bytes += result.bytes
	e.tally.latency.record(latency)
}
