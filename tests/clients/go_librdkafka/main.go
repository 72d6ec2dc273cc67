// A member of a group by confluent-kafka-go, which brings a librdkafka of its own; settings, events and commands as in
// tests/clients/members/protocol.py, of which it knows what the tests ask of it: `commit` and `close`.
//
// Usage: go_librdkafka member SETTINGS
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

const (
	pollMs           = 50
	sessionMsDefault = 6_000
)

type settings struct {
	Bootstrap string   `json:"bootstrap"`
	Group     string   `json:"group"`
	Instance  string   `json:"instance"`
	Topics    []string `json:"topics"`
	SessionMs int      `json:"session_ms"`
	PollMs    int      `json:"poll_ms"`
	CA        string   `json:"ca"`
	SASL      *struct {
		Mechanism string `json:"mechanism"`
		User      string `json:"user"`
		Password  string `json:"password"`
	} `json:"sasl"`
}

func (s *settings) config() *kafka.ConfigMap {
	if s.SessionMs == 0 {
		s.SessionMs = sessionMsDefault
	}
	config := kafka.ConfigMap{
		"bootstrap.servers": s.Bootstrap, "client.id": "go-librdkafka", "group.id": s.Group, "log_level": 0,
		"auto.offset.reset": "earliest", "enable.auto.commit": false, "partition.assignment.strategy": "range",
		"session.timeout.ms": s.SessionMs, "heartbeat.interval.ms": 500, "max.poll.interval.ms": max(s.PollMs, 30_000),
	}
	if s.Instance != "" {
		config["group.instance.id"] = s.Instance
	}
	protocol := "PLAINTEXT"
	if s.CA != "" {
		protocol, config["ssl.ca.location"] = "SSL", s.CA
	}
	if s.SASL != nil {
		protocol = "SASL_" + map[bool]string{true: "SSL", false: "PLAINTEXT"}[s.CA != ""]
		config["sasl.mechanism"] = s.SASL.Mechanism
		config["sasl.username"], config["sasl.password"] = s.SASL.User, s.SASL.Password
	}
	config["security.protocol"] = protocol
	return &config
}

func must(what string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		os.Exit(1)
	}
}

func tell(event string, fields map[string]any) {
	if fields == nil {
		fields = map[string]any{}
	}
	fields["e"] = event
	must("tell", json.NewEncoder(os.Stdout).Encode(fields))
}

func pairs(partitions []kafka.TopicPartition) [][]any {
	all := [][]any{}
	for _, one := range partitions {
		all = append(all, []any{*one.Topic, one.Partition})
	}
	return all
}

func rebalanced(consumer *kafka.Consumer, event kafka.Event) error {
	switch changed := event.(type) {
	case kafka.AssignedPartitions:
		tell("assigned", map[string]any{"tps": pairs(changed.Partitions)})
		return consumer.Assign(changed.Partitions)
	case kafka.RevokedPartitions:
		name := "revoked"
		if consumer.AssignmentLost() {
			name = "lost"
		}
		tell(name, map[string]any{"tps": pairs(changed.Partitions)})
		return consumer.Unassign()
	}
	return nil
}

// commands as they come; the end of input ends the process, so that no member outlives its test.
func commands() <-chan string {
	box := make(chan string)
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			var command struct {
				C string `json:"c"`
			}
			must("command", json.Unmarshal(lines.Bytes(), &command))
			box <- command.C
		}
		os.Exit(3)
	}()
	return box
}

func commit(consumer *kafka.Consumer) {
	_, err := consumer.Commit()
	if known, isKafkas := err.(kafka.Error); isKafkas && known.Code() == kafka.ErrNoOffset {
		err = nil // nothing new has been read
	}
	if err != nil {
		tell("commit_failed", map[string]any{"error": err.Error()})
		return
	}
	tell("committed", nil)
}

func optional(data []byte) *string {
	if data == nil {
		return nil
	}
	text := string(data)
	return &text
}

func main() {
	var s settings
	must("settings", json.Unmarshal([]byte(os.Args[2]), &s))
	consumer, err := kafka.NewConsumer(s.config())
	must("consumer", err)
	must("subscribe", consumer.SubscribeTopics(s.Topics, rebalanced))
	inbox := commands()
	for {
		select {
		case command := <-inbox:
			if command == "close" {
				must("close", consumer.Close())
				tell("closed", nil)
				return
			}
			commit(consumer)
		default:
			switch event := consumer.Poll(pollMs).(type) {
			case *kafka.Message:
				at := event.TopicPartition
				row := []any{*at.Topic, at.Partition, int64(at.Offset), optional(event.Key), optional(event.Value)}
				tell("records", map[string]any{"rs": [][]any{row}})
			case kafka.Error:
				tell("error", map[string]any{"error": event.Code().String(), "fatal": event.IsFatal()})
			}
		}
	}
}
