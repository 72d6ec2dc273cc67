package main

import (
	"flag"
	"fmt"
	"time"
)

// storm: one group of many members, each on its own connection. First all join at once (join to stable), then the
// stable group is forced to rebalance again and again, while members of other groups on the same coordinator send
// heartbeats at a fixed rate.
//
// A forced rebalance begins when one member sends a JoinGroup with changed metadata (or leaves). A second member sends
// heartbeats until one says that the group rebalances; then all others join at once. So the figure is the servers' work,
// without the heartbeat interval and without the heartbeats of a thousand waiting members.

const (
	askAgainAfter  = 2 * time.Millisecond
	bystanderTries = 200
)

type stormOptions struct {
	bootstrap, trigger, cpu string
	members, times          int
	bystanders              int
	rate                    float64
}

type stormResult struct {
	Op         string           `json:"op"`
	Members    int              `json:"members"`
	JoinMs     float64          `json:"join_to_stable_ms"`
	ForcedMs   []float64        `json:"forced_rebalance_ms"`
	Bystanders *result          `json:"bystanders"`
	CPUUs      map[string]int64 `json:"cpu_us"` // over the forced rebalances
}

func runStorm(arguments []string) (any, error) {
	o := &stormOptions{}
	f := flag.NewFlagSet("storm", flag.ContinueOnError)
	f.StringVar(&o.bootstrap, "bootstrap", "", "host:port,host:port")
	f.StringVar(&o.trigger, "trigger", "metadata", "metadata or leave: what forces a rebalance")
	f.StringVar(&o.cpu, "cpu", "", "processes whose CPU time is read: name=pid,pid;name=pid")
	f.IntVar(&o.members, "members", 100, "")
	f.IntVar(&o.times, "times", 3, "forced rebalances")
	f.IntVar(&o.bystanders, "bystanders", 20, "groups of one member with the same coordinator")
	f.Float64Var(&o.rate, "rate", 500, "heartbeats a second of all bystanders")
	if err := f.Parse(arguments); err != nil {
		return nil, err
	}
	if o.trigger != "metadata" && o.trigger != "leave" || o.members < 2 || o.times < 1 {
		return nil, fmt.Errorf("storm: trigger metadata or leave, 2 or more members, 1 or more times")
	}
	pids, err := parseProcesses(o.cpu)
	if err != nil {
		return nil, err
	}
	return o.run(pids)
}

func (o *stormOptions) run(pids processes) (*stormResult, error) {
	prefix := ownPrefix()
	members := make([]*member, o.members)
	for n := range members {
		members[n] = newMember(prefix)
	}
	if err := connectMembers(o.bootstrap, members); err != nil {
		return nil, err
	}
	out := &stormResult{Op: "storm", Members: o.members}
	watch, err := o.findBystanders(prefix)
	if err != nil {
		return nil, err
	}
	ready := make(chan error, 1)
	go func() { ready <- watch.join() }() // their first join has the same initial delay as the storm's
	began := time.Now()
	if err := stabilise(members); err != nil {
		return nil, err
	}
	out.JoinMs = milliseconds(began)
	if err := <-ready; err != nil {
		return nil, err
	}
	watch.start()
	before, err := pids.cpuUs()
	if err != nil {
		return nil, err
	}
	for n := 0; n < o.times; n++ {
		took, left, err := o.force(members, byte(n+1))
		if err != nil {
			return nil, err
		}
		members = left
		out.ForcedMs = append(out.ForcedMs, took)
	}
	if out.CPUUs, err = pids.cpuUs(); err != nil {
		return nil, err
	}
	for name := range out.CPUUs {
		out.CPUUs[name] -= before[name]
	}
	if out.Bystanders, err = watch.stop(); err != nil {
		return nil, err
	}
	return out, leaveAll(members)
}

func milliseconds(since time.Time) float64 { return float64(time.Since(since)) / 1e6 }

// stabilise brings all members into one generation, whatever their current state.
func stabilise(members []*member) error {
	behind := members
	for tries := 0; len(behind) > 0; tries++ {
		if tries == rejoinsMax {
			return fmt.Errorf("no generation has all members after %d tries", tries)
		}
		if err := each(behind, (*member).enter); err != nil {
			return err
		}
		var newest int32
		for _, m := range members {
			newest = max(newest, m.generation)
		}
		behind = nil
		for _, m := range members {
			if m.generation < newest {
				behind = append(behind, m)
			}
		}
	}
	return nil
}

// force one rebalance; returns its milliseconds and the members that are still in.
func (o *stormOptions) force(members []*member, marker byte) (float64, []*member, error) {
	first := members[0]
	for _, m := range members {
		if !m.leads {
			first = m
			break
		}
	}
	rest := make([]*member, 0, len(members))
	for _, m := range members {
		if m != first {
			rest = append(rest, m)
		}
	}
	old := first.generation
	began := time.Now()
	if o.trigger == "leave" {
		if err := leaveAll([]*member{first}); err != nil {
			return 0, nil, err
		}
		first.client.close()
		members = rest
	} else {
		first.metadata = subscription("bench", marker)
	}
	told := make(chan struct{})
	err := each(members, func(m *member) error {
		if m != first {
			if m != rest[0] {
				<-told
			}
			err := m.awaitRebalance()
			if m == rest[0] {
				close(told)
			}
			if err != nil {
				return err
			}
		}
		return m.enter()
	})
	if err == nil {
		err = stabilise(behindOf(members))
	}
	if err == nil && members[0].generation <= old {
		err = fmt.Errorf("the rebalance left generation %d as it was", old)
	}
	return milliseconds(began), members, err
}

// behindOf returns all members if they are not yet in one generation, else none.
func behindOf(members []*member) []*member {
	for _, m := range members {
		if m.generation != members[0].generation {
			return members
		}
	}
	return nil
}

func (m *member) awaitRebalance() error {
	deadline := time.Now().Add(callTimeout)
	for time.Now().Before(deadline) {
		code, err := m.heartbeat()
		if err != nil {
			return err
		}
		if code == codeRebalance {
			return nil
		}
		if code != codeNone {
			return fmt.Errorf("Heartbeat of %s: error %d", m.group, code)
		}
		time.Sleep(askAgainAfter)
	}
	return fmt.Errorf("%s was not told to rebalance", m.group)
}

type bystanders struct {
	options *loadOptions
	members []*member
	engine  *engine
	began   time.Time
	done    chan error
	tally   *tally
}

// findBystanders returns groups with the storm's coordinator.
func (o *stormOptions) findBystanders(stormGroup string) (*bystanders, error) {
	names := []string{stormGroup}
	for n := 0; n < o.bystanders*bystanderTries; n++ {
		names = append(names, fmt.Sprintf("%s-by-%d", stormGroup, n))
	}
	found, err := findCoordinators(o.bootstrap, names[:min(len(names), 500)])
	if err != nil {
		return nil, err
	}
	b := &bystanders{
		options: &loadOptions{bootstrap: o.bootstrap, kind: "heartbeat", partitions: 1, rate: o.rate},
		done:    make(chan error, 1),
	}
	for name, c := range found {
		if name != stormGroup && c.node == found[stormGroup].node && len(b.members) < o.bystanders {
			b.members = append(b.members, newMember(name))
		}
	}
	if len(b.members) < o.bystanders {
		return nil, fmt.Errorf("only %d groups share the storm's coordinator", len(b.members))
	}
	b.options.connections = len(b.members)
	return b, nil
}

func (b *bystanders) join() error {
	connections, err := b.options.prepare(b.members)
	if err != nil {
		return err
	}
	config := engineConfig{interval: int64(1e9 / b.options.rate), window: time.Hour}
	b.engine, err = newEngine(config, time.Now(), connections)
	return err
}

// start sending heartbeats, until stop.
func (b *bystanders) start() {
	b.began = time.Now()
	b.engine.arm()
	go func() {
		tally, err := b.engine.run()
		b.tally = tally
		b.done <- err
	}()
}

func (b *bystanders) stop() (*result, error) {
	b.options.window = time.Since(b.began)
	b.engine.until.Store(b.engine.now())
	if err := <-b.done; err != nil {
		return nil, err
	}
	if err := b.options.cleanUp(b.members); err != nil {
		return nil, err
	}
	return makeResult(b.options, b.tally, nil, 0), nil
}
