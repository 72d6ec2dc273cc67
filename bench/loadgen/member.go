package main

import (
	"fmt"
	"time"
)

const (
	codeUnknownTopic                                            = 3
	codeNone, codeLoading, codeNotAvailable, codeNotCoordinator = 0, 14, 15, 16
	codeUnknownMember, codeRebalance, codeMemberIDRequired      = 25, 27, 79
	rejoinsMax                                                  = 200
	retryPause                                                  = 50 * time.Millisecond
)

// member is one member of a group: classic protocol, one connection.
type member struct {
	group, id              string
	instance               *string
	generation             int32
	sessionMs, rebalanceMs int32
	metadata               []byte
	leads                  bool
	peers                  []string // only a leader knows them
	client                 *client
	bootstrap              string
}

func newMember(group string) *member {
	return &member{group: group, generation: -1, sessionMs: 120_000, rebalanceMs: 60_000, metadata: subscription("bench", 0)}
}

// subscription in the consumer protocol, version 0; marker makes two of them differ, as a changed client would.
func subscription(topic string, marker byte) []byte {
	w := &writer{}
	w.i16(0)
	w.i32(1)
	w.i16(int16(len(topic)))
	w.data = append(w.data, topic...)
	w.i32(1)
	w.i8(int8(marker))
	return w.data
}

// assignment of one partition in the consumer protocol, version 0.
func assignment(topic string, partition int32) []byte {
	w := &writer{}
	w.i16(0)
	w.i32(1)
	w.i16(int16(len(topic)))
	w.data = append(w.data, topic...)
	w.i32(1)
	w.i32(partition)
	w.i32(-1)
	return w.data
}

func retriable(code int16) bool {
	return code == codeLoading || code == codeNotAvailable || code == codeNotCoordinator
}

// join until JoinGroup succeeds, with the second step when an id is handed out first.
func (m *member) join() error {
	for tries := 0; tries < rejoinsMax; tries++ {
		answer, err := m.client.call(joinRequest(m))
		if err != nil {
			return err
		}
		a, err := readJoin(answer)
		if err != nil {
			return err
		}
		switch {
		case a.code == codeNone:
			m.id, m.generation, m.leads, m.peers = a.id, a.generation, a.leader == a.id, a.members
			return nil
		case a.code == codeMemberIDRequired:
			m.id = a.id
		case a.code == codeUnknownMember:
			m.id = "" // the id came from a broker that is no longer the coordinator
		case a.code == codeRebalance:
		case retriable(a.code):
			if err := m.connectAgain(); err != nil {
				return err
			}
		default:
			return fmt.Errorf("JoinGroup of %s: error %d", m.group, a.code)
		}
	}
	return fmt.Errorf("JoinGroup of %s: %d tries", m.group, rejoinsMax)
}

// enter joins and syncs until both succeed in one generation.
func (m *member) enter() error {
	for tries := 0; tries < rejoinsMax; tries++ {
		if err := m.join(); err != nil {
			return err
		}
		var plan map[string][]byte
		if m.leads {
			plan = make(map[string][]byte, len(m.peers))
			for n, peer := range m.peers {
				plan[peer] = assignment("bench", int32(n))
			}
		}
		answer, err := m.client.call(syncRequest(m, plan))
		if err != nil {
			return err
		}
		code, err := readSimple(answer)
		if err != nil {
			return err
		}
		if code == codeNone {
			return nil
		}
		if retriable(code) {
			if err := m.connectAgain(); err != nil {
				return err
			}
		} else if code != codeRebalance {
			return fmt.Errorf("SyncGroup of %s: error %d", m.group, code)
		}
	}
	return fmt.Errorf("%s did not become stable in %d tries", m.group, rejoinsMax)
}

// connectAgain asks for the coordinator after a pause: it may have moved.
func (m *member) connectAgain() error {
	time.Sleep(retryPause)
	m.client.close()
	return connectMembers(m.bootstrap, []*member{m})
}

// heartbeat returns the error code.
func (m *member) heartbeat() (int16, error) {
	answer, err := m.client.call(heartbeatRequest(m))
	if err != nil {
		return 0, err
	}
	return readSimple(answer)
}

// leaveAll removes members of one group with one request on the first one's connection.
func leaveAll(members []*member) error {
	return members[0].insist("LeaveGroup", leaveRequest(members[0].group, members), readSimple)
}

// insist repeats a request until it succeeds, and follows a coordinator that moved. It is for preparing and ending a
// measurement; within one, an error counts as an error.
func (m *member) insist(what string, frame []byte, read func([]byte) (int16, error)) error {
	var code int16
	for tries := 0; tries < rejoinsMax; tries++ {
		answer, err := m.client.call(frame)
		if err != nil {
			return err
		}
		if code, err = read(answer); err != nil || code == codeNone {
			return err
		}
		// 3: the broker does not know the new topic yet
		if !retriable(code) && code != codeUnknownTopic {
			break
		}
		if err := m.connectAgain(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s of %s: error %d", what, m.group, code)
}

// connectMembers dials the coordinators of all members.
func connectMembers(bootstrap string, members []*member) error {
	groups, seen := []string{}, map[string]bool{}
	for _, m := range members {
		if !seen[m.group] {
			seen[m.group] = true
			groups = append(groups, m.group)
		}
	}
	found, err := findCoordinators(bootstrap, groups)
	if err != nil {
		return err
	}
	for _, m := range members {
		m.bootstrap = bootstrap
		if m.client, err = dial(found[m.group].address); err != nil {
			return err
		}
	}
	return nil
}

// each runs act for all members at once; the first error.
func each(members []*member, act func(*member) error) error {
	errors := make(chan error, len(members))
	for _, m := range members {
		go func(m *member) { errors <- act(m) }(m)
	}
	var first error
	for range members {
		if err := <-errors; err != nil && first == nil {
			first = err
		}
	}
	return first
}
