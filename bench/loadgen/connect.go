package main

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// connect: how many connections a second a server takes, each with one request and its answer, then closed. With a CA,
// each has a whole TLS handshake; the one in the clear beside it says what the rest of a connection costs.

type connectResult struct {
	Op      string           `json:"op"`
	Seconds float64          `json:"seconds"`
	Good    uint64           `json:"good"`
	Rate    float64          `json:"rate"`
	CPUUs   map[string]int64 `json:"cpu_us"`
}

func runConnect(arguments []string) (any, error) {
	f := flag.NewFlagSet("connect", flag.ContinueOnError)
	bootstrap := f.String("bootstrap", "", "host:port,host:port")
	cpu := f.String("cpu", "", "as of load")
	atOnce := f.Int("at-once", 8, "connections that are being made")
	warmup := f.Duration("warmup", time.Second, "")
	window := f.Duration("window", 3*time.Second, "")
	ca := addTLS(f)
	if err := f.Parse(arguments); err != nil {
		return nil, err
	}
	if *bootstrap == "" || *atOnce < 1 {
		return nil, fmt.Errorf("connect: bootstrap, and 1 or more at once")
	}
	pids, err := parseProcesses(*cpu)
	if err != nil {
		return nil, err
	}
	if err := encrypt(*ca); err != nil {
		return nil, err
	}
	c := &connecting{addresses: strings.Split(*bootstrap, ",")}
	used, err := c.run(*atOnce, pids, *warmup, *window)
	if err != nil {
		return nil, err
	}
	good := c.counted.Load()
	seconds := window.Seconds()
	return &connectResult{Op: "connect", Seconds: seconds, Good: good, Rate: float64(good) / seconds, CPUUs: used}, nil
}

type connecting struct {
	addresses       []string
	turn, counted   atomic.Uint64
	counts, stopped atomic.Bool
	failed          error
	once            sync.Once
}

func (c *connecting) run(atOnce int, pids processes, warmup, window time.Duration) (map[string]int64, error) {
	var group sync.WaitGroup
	for n := 0; n < atOnce; n++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for !c.stopped.Load() {
				if err := c.one(); err != nil {
					c.once.Do(func() { c.failed = err })
					return
				}
				if c.counts.Load() {
					c.counted.Add(1)
				}
			}
		}()
	}
	time.Sleep(warmup)
	c.counts.Store(true)
	used, err := cpuBetween(pids, 0, window)
	c.counts.Store(false)
	c.stopped.Store(true)
	group.Wait()
	if c.failed != nil {
		return nil, c.failed
	}
	return used, err
}

func (c *connecting) one() error {
	address := c.addresses[c.turn.Add(1)%uint64(len(c.addresses))]
	made, err := dial(address)
	if err != nil {
		return err
	}
	defer made.close()
	_, err = made.call(findRequest([]string{"connect"}))
	return err
}
