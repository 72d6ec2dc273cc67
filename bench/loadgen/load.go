package main

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"time"
)

// load: many connections, one kind of request, at full speed or at a fixed rate.

type loadOptions struct {
	bootstrap, kind, topic, prefix, cpu string
	connections, depth, partitions      int
	threads, batchRecords, valueBytes   int
	rate                                float64
	warmup, window                      time.Duration
	echoed                              bool
}

func parseLoad(arguments []string) (*loadOptions, error) {
	o := &loadOptions{}
	f := flag.NewFlagSet("load", flag.ContinueOnError)
	f.StringVar(&o.bootstrap, "bootstrap", "", "host:port,host:port")
	f.StringVar(&o.kind, "op", "heartbeat", "heartbeat commit offset-fetch produce fetch")
	f.StringVar(&o.topic, "topic", "bench", "topic of commits, OffsetFetch, Produce, Fetch")
	f.StringVar(&o.prefix, "prefix", "", "of group names; one of its own by default")
	f.StringVar(&o.cpu, "cpu", "", "processes whose CPU time is read: name=pid,pid;name=pid")
	f.IntVar(&o.connections, "connections", 50, "one group with one member each, where the op needs groups")
	f.IntVar(&o.depth, "depth", 1, "requests in flight per connection")
	f.IntVar(&o.partitions, "partitions", 10, "in a commit or OffsetFetch; of the topic for Produce and Fetch")
	f.IntVar(&o.threads, "threads", 1, "of the generator")
	f.IntVar(&o.batchRecords, "batch-records", 100, "records in a Produce")
	f.IntVar(&o.valueBytes, "value-bytes", 100, "of a record")
	f.Float64Var(&o.rate, "rate", 0, "requests a second over all connections; 0: closed loop")
	f.DurationVar(&o.warmup, "warmup", time.Second, "")
	f.DurationVar(&o.window, "window", 3*time.Second, "")
	ca := addTLS(f)
	f.BoolVar(&o.echoed, "echo", false, "the servers send back what they get")
	if err := f.Parse(arguments); err != nil {
		return nil, err
	}
	if o.bootstrap == "" || o.connections < 1 || o.depth < 1 || o.depth > inflightMax || o.partitions < 1 || o.threads < 1 {
		return nil, fmt.Errorf("load: bootstrap, and 1 or more connections, partitions, threads, depth up to %d", inflightMax)
	}
	if o.kind == "fetch" && (o.depth > 1 || o.rate > 0) {
		return nil, fmt.Errorf("load: a fetch depends on the answer before it: depth 1, closed loop")
	}
	if o.prefix == "" {
		o.prefix = ownPrefix()
	}
	return o, encrypt(*ca)
}

func ownPrefix() string { return fmt.Sprintf("bench-%x", time.Now().UnixNano()) }

func runLoad(arguments []string) (any, error) {
	o, err := parseLoad(arguments)
	if err != nil {
		return nil, err
	}
	pids, err := parseProcesses(o.cpu)
	if err != nil {
		return nil, err
	}
	members := make([]*member, o.connections)
	for n := range members {
		members[n] = newMember(fmt.Sprintf("%s-%d", o.prefix, n))
	}
	began := time.Now()
	connections, err := o.prepare(members)
	if err != nil {
		return nil, err
	}
	prepared := time.Since(began)
	total, used, err := drive(o.engine(), connections, o.threads, o.rate, pids)
	if err != nil {
		return nil, err
	}
	if err := o.cleanUp(members); err != nil {
		return nil, err
	}
	return makeResult(o, total, used, prepared), nil
}

func (o *loadOptions) engine() engineConfig {
	return engineConfig{depth: o.depth, warmup: o.warmup, window: o.window, echoed: o.echoed}
}

func (o *loadOptions) joins() bool { return !o.echoed && (o.kind == "heartbeat" || o.kind == "commit") }

// prepare connects, joins and commits: everything that must exist before the first counted request.
func (o *loadOptions) prepare(members []*member) ([]*connection, error) {
	if err := o.connect(members); err != nil {
		return nil, err
	}
	if o.joins() {
		if err := each(members, (*member).enter); err != nil {
			return nil, err
		}
	}
	if o.kind == "offset-fetch" && !o.echoed {
		if err := each(members, func(m *member) error { return commitOnce(m, o.topic, o.partitions) }); err != nil {
			return nil, err
		}
	}
	connections := make([]*connection, len(members))
	for n, m := range members {
		task, err := o.task(m, int32(n%o.partitions))
		if err != nil {
			return nil, err
		}
		fd, err := m.client.detach()
		if err != nil {
			return nil, err
		}
		connections[n] = &connection{fd: fd, sealed: m.client.sealed, task: task}
	}
	return connections, nil
}

func (o *loadOptions) connect(members []*member) error {
	addresses := strings.Split(o.bootstrap, ",")
	if !o.echoed && o.kind != "produce" && o.kind != "fetch" {
		return connectMembers(o.bootstrap, members)
	}
	leaders := map[int32]string{}
	if !o.echoed {
		var err error
		if leaders, err = findLeaders(o.bootstrap, o.topic, o.partitions); err != nil {
			return err
		}
	}
	for n, m := range members {
		address, known := leaders[int32(n%o.partitions)]
		if !known {
			address = addresses[n%len(addresses)]
			m.id = "member-of-the-usual-length-3f0b1c52-8a5e-4a4e-9d59-1f2f6c8f7a11"
		}
		var err error
		if m.client, err = dial(address); err != nil {
			return err
		}
	}
	return nil
}

func (o *loadOptions) task(m *member, partition int32) (task, error) {
	switch o.kind {
	case "heartbeat":
		return &fixed{frame: heartbeatRequest(m), read: readSimple}, nil
	case "commit":
		frame, places := commitRequest(m, o.topic, 0, o.partitions)
		return &committing{frame: frame, places: places}, nil
	case "offset-fetch":
		return &fixed{frame: offsetFetchRequest(m, o.topic, o.partitions), read: readOffsetFetch}, nil
	case "produce":
		frame := produceRequest(o.topic, partition, recordBatch(o.batchRecords, o.valueBytes))
		payload := int64(o.batchRecords) * int64(o.valueBytes)
		return &fixed{frame: frame, read: readProduce, records: int64(o.batchRecords), bytes: payload}, nil
	case "fetch":
		frame, at := fetchRequest(o.topic, partition, 1<<20)
		return &fetching{frame: frame, offsetAt: at}, nil
	}
	return nil, fmt.Errorf("no such op: %q", o.kind)
}

// cleanUp makes the members leave, so that their sessions do not load the servers in the next run.
func (o *loadOptions) cleanUp(members []*member) error {
	if !o.joins() {
		return nil
	}
	if err := connectMembers(o.bootstrap, members); err != nil {
		return err
	}
	return each(members, func(m *member) error {
		defer m.client.close()
		return leaveAll([]*member{m})
	})
}

func commitOnce(m *member, topic string, partitions int) error {
	frame, _ := commitRequest(m, topic, 0, partitions)
	return m.insist("OffsetCommit", frame, readCommit)
}

// drive shares the connections among threads, runs them together, and reads the servers' CPU time at both ends of the
// window.
func drive(config engineConfig, all []*connection, threads int, rate float64, pids processes) (*tally, map[string]int64, error) {
	threads = min(threads, len(all))
	base := time.Now()
	engines := make([]*engine, threads)
	for n := range engines {
		var own []*connection
		for at := n; at < len(all); at += threads {
			own = append(own, all[at])
		}
		if rate > 0 {
			config.interval = int64(1e9 * float64(threads) / rate)
		}
		var err error
		if engines[n], err = newEngine(config, base, own); err != nil {
			return nil, nil, err
		}
	}
	total := newTally()
	var lock sync.Mutex
	var group sync.WaitGroup
	var failed error
	for _, e := range engines {
		group.Add(1)
		e.arm()
		go func(e *engine) {
			defer group.Done()
			part, err := e.run()
			lock.Lock()
			defer lock.Unlock()
			if err != nil {
				failed = err
				return
			}
			total.merge(part)
		}(e)
	}
	used, err := cpuBetween(pids, config.warmup, config.window)
	group.Wait()
	if failed != nil {
		return nil, nil, failed
	}
	return total, used, err
}

func cpuBetween(pids processes, before, window time.Duration) (map[string]int64, error) {
	time.Sleep(before)
	first, err := pids.cpuUs()
	if err != nil {
		return nil, err
	}
	time.Sleep(window)
	last, err := pids.cpuUs()
	for name := range last {
		last[name] -= first[name]
	}
	return last, err
}
