package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// A member of a group by franz-go; settings, events and commands as in tests/clients/members/protocol.py, of which it
// knows what the tests ask of it: `commit` and `close`.
//
// Usage: go_tools member SETTINGS

type memberSettings struct {
	Bootstrap string   `json:"bootstrap"`
	Group     string   `json:"group"`
	Instance  string   `json:"instance"`
	Topics    []string `json:"topics"`
	SessionMs int      `json:"session_ms"`
	CA        string   `json:"ca"`
	SASL      *struct {
		Mechanism string `json:"mechanism"`
		User      string `json:"user"`
		Password  string `json:"password"`
	} `json:"sasl"`
}

func (s *memberSettings) seeds() []string { return strings.Split(s.Bootstrap, ",") }

func (s *memberSettings) session() time.Duration {
	if s.SessionMs == 0 {
		return 6 * time.Second
	}
	return time.Duration(s.SessionMs) * time.Millisecond
}

// tls is nil for a listener in the clear; chain and host name are verified.
func (s *memberSettings) tls() *tls.Config {
	if s.CA == "" {
		return nil
	}
	text, err := os.ReadFile(s.CA)
	must("ca", err)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		must("ca", os.ErrInvalid)
	}
	return &tls.Config{RootCAs: roots}
}

var telling sync.Mutex

func tell(event string, fields told) {
	if fields == nil {
		fields = told{}
	}
	fields["e"] = event
	telling.Lock()
	defer telling.Unlock()
	must("tell", json.NewEncoder(os.Stdout).Encode(fields))
}

func tellCommit(err error) {
	if err != nil {
		tell("commit_failed", told{"error": err.Error()})
		return
	}
	tell("committed", nil)
}

func pairs(assigned map[string][]int32) [][]any {
	all := [][]any{}
	for topic, partitions := range assigned {
		for _, partition := range partitions {
			all = append(all, []any{topic, partition})
		}
	}
	return all
}

func optional(data []byte) *string {
	if data == nil {
		return nil
	}
	text := string(data)
	return &text
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

func member(arguments []string) {
	var settings memberSettings
	must("settings", json.Unmarshal([]byte(arguments[0]), &settings))
	franzMember(&settings)
	tell("closed", nil)
}

func franzMember(s *memberSettings) {
	assigned := func(event string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, client *kgo.Client, changed map[string][]int32) {
			fields := told{"tps": pairs(changed)}
			if event == "assigned" {
				id, generation := client.GroupMetadata()
				fields["member"], fields["generation"] = id, generation
			}
			tell(event, fields)
		}
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(s.seeds()...), kgo.ClientID("franz-go"), kgo.ConsumerGroup(s.Group), kgo.ConsumeTopics(s.Topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.Balancers(kgo.RangeBalancer()), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(s.session()), kgo.HeartbeatInterval(500 * time.Millisecond), kgo.MetadataMaxAge(time.Second * 5),
		kgo.OnPartitionsAssigned(assigned("assigned")), kgo.OnPartitionsRevoked(assigned("revoked")),
		kgo.OnPartitionsLost(assigned("lost")),
	}
	if s.Instance != "" {
		options = append(options, kgo.InstanceID(s.Instance))
	}
	if encrypted := s.tls(); encrypted != nil {
		options = append(options, kgo.DialTLSConfig(encrypted))
	}
	if s.SASL != nil {
		login := scram.Auth{User: s.SASL.User, Pass: s.SASL.Password}
		mechanism := login.AsSha512Mechanism()
		if s.SASL.Mechanism == "SCRAM-SHA-256" {
			mechanism = login.AsSha256Mechanism()
		}
		options = append(options, kgo.SASL(mechanism))
	}
	client, err := kgo.NewClient(options...)
	must("client", err)
	inbox := commands()
	for {
		select {
		case command := <-inbox:
			if command == "close" {
				client.Close()
				return
			}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			tellCommit(client.CommitUncommittedOffsets(ctx))
			cancel()
		default:
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			fetches := client.PollFetches(ctx)
			cancel()
			records := [][]any{}
			fetches.EachRecord(func(r *kgo.Record) {
				records = append(records, []any{r.Topic, r.Partition, r.Offset, optional(r.Key), optional(r.Value)})
			})
			if len(records) > 0 {
				tell("records", told{"rs": records})
			}
		}
	}
}
