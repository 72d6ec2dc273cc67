package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"time"
)

// fill, members, check, hold: prepare a state of the servers for another measurement.

const fillersPerCoordinator = 16

type stateOptions struct {
	bootstrap, prefix, topic  string
	groups, partitions, count int
	every                     int
}

func parseState(name string, arguments []string) (*stateOptions, error) {
	o := &stateOptions{}
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.StringVar(&o.bootstrap, "bootstrap", "", "host:port,host:port")
	f.StringVar(&o.prefix, "prefix", "fill", "of group names")
	f.StringVar(&o.topic, "topic", "bench", "")
	f.IntVar(&o.groups, "groups", 1000, "")
	f.IntVar(&o.partitions, "partitions", 10, "committed in each group")
	f.IntVar(&o.count, "count", 10, "members of each group; connections to hold")
	f.IntVar(&o.every, "every", 1, "check: only every n-th group")
	ca := addTLS(f)
	if err := f.Parse(arguments); err != nil {
		return nil, err
	}
	if o.groups < 1 || o.partitions < 1 || o.count < 1 || o.every < 1 {
		return nil, fmt.Errorf("%s: every number is 1 or more", name)
	}
	return o, encrypt(*ca)
}

func (o *stateOptions) names() []string {
	var names []string
	for n := 0; n < o.groups; n += o.every {
		names = append(names, fmt.Sprintf("%s-%d", o.prefix, n))
	}
	return names
}

type stateResult struct {
	Op      string  `json:"op"`
	Seconds float64 `json:"seconds"`
	Groups  int     `json:"groups"`
	Offsets int     `json:"offsets"`
}

// runFill commits once in each of many groups without members.
func runFill(arguments []string) (any, error) {
	o, err := parseState("fill", arguments)
	if err != nil {
		return nil, err
	}
	return o.visit("fill", func(m *member) error { return commitOnce(m, o.topic, o.partitions) })
}

// runCheck reads those offsets back; a group or an offset that is not there is an error.
func runCheck(arguments []string) (any, error) {
	o, err := parseState("check", arguments)
	if err != nil {
		return nil, err
	}
	return o.visit("check", func(m *member) error {
		return m.insist("OffsetFetch", offsetFetchRequest(m, o.topic, o.partitions), readOffsetFetch)
	})
}

// visit runs act once for each group, over a few connections to each coordinator.
func (o *stateOptions) visit(name string, act func(*member) error) (*stateResult, error) {
	names := o.names()
	found, err := findCoordinators(o.bootstrap, names)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	byAddress := map[string][]string{}
	for _, group := range names {
		address := found[group].address
		byAddress[address] = append(byAddress[address], group)
	}
	errors := make(chan error)
	workers := 0
	for address, groups := range byAddress {
		for n := 0; n < fillersPerCoordinator; n++ {
			workers++
			go func(address string, groups []string, first int) {
				errors <- o.visitSome(address, groups, first, act)
			}(address, groups, n)
		}
	}
	var failed error
	for ; workers > 0; workers-- {
		if err := <-errors; err != nil {
			failed = err
		}
	}
	seconds := time.Since(began).Seconds()
	return &stateResult{Op: name, Seconds: seconds, Groups: len(names), Offsets: len(names) * o.partitions}, failed
}

func (o *stateOptions) visitSome(address string, groups []string, first int, act func(*member) error) error {
	usual, err := dial(address)
	if err != nil {
		return err
	}
	defer func() { usual.close() }()
	for n := first; n < len(groups); n += fillersPerCoordinator {
		m := newMember(groups[n])
		m.client, m.bootstrap = usual, o.bootstrap
		err := act(m)
		if m.client != usual { // this group's coordinator moved; most others' did not
			m.client.close()
			var again error
			if usual, again = dial(address); again != nil && err == nil {
				err = again
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// runMembers makes stable groups of count members and exits without leaving: their sessions last half an hour.
func runMembers(arguments []string) (any, error) {
	o, err := parseState("members", arguments)
	if err != nil {
		return nil, err
	}
	const groupsAtOnce = 100
	began := time.Now()
	names := o.names()
	for at := 0; at < len(names); at += groupsAtOnce {
		var members []*member
		for _, group := range names[at:min(at+groupsAtOnce, len(names))] {
			for n := 0; n < o.count; n++ {
				m := newMember(group)
				m.sessionMs = 1_800_000
				members = append(members, m)
			}
		}
		if err := connectMembers(o.bootstrap, members); err != nil {
			return nil, err
		}
		if err := each(members, (*member).enter); err != nil {
			return nil, err
		}
		for _, m := range members {
			m.client.close()
		}
	}
	return &stateResult{Op: "members", Seconds: time.Since(began).Seconds(), Groups: len(names)}, nil
}

// runHold opens connections, sends a request on each, prints ready, and keeps them until standard input ends.
func runHold(arguments []string) (any, error) {
	o, err := parseState("hold", arguments)
	if err != nil {
		return nil, err
	}
	members := make([]*member, o.count)
	for n := range members {
		members[n] = newMember(fmt.Sprintf("%s-%d", o.prefix, n))
	}
	if err := connectMembers(o.bootstrap, members); err != nil {
		return nil, err
	}
	for _, m := range members {
		if _, err := m.client.call(findRequest([]string{m.group})); err != nil {
			return nil, err
		}
	}
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString(0)
	return &stateResult{Op: "hold"}, nil
}
