package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// A member of a group by franz-go; settings, events and commands as in tests/clients/members/protocol.py, of which it
// knows what the tests ask of it: `commit`, `produce` and `close`.
//
// Usage: go_tools member SETTINGS

type memberSettings struct {
	Bootstrap   string   `json:"bootstrap"`
	Group       string   `json:"group"`
	Instance    string   `json:"instance"`
	Topics      []string `json:"topics"`
	SessionMs   int      `json:"session_ms"`
	CA          string   `json:"ca"`
	Certificate string   `json:"certificate"`
	Key         string   `json:"key"`
	SASL        *login   `json:"sasl"`
}

type login struct {
	Mechanism string `json:"mechanism"`
	User      string `json:"user"`
	Password  string `json:"password"`
	Endpoint  string `json:"endpoint"`
}

func (l *login) mechanism() sasl.Mechanism {
	switch l.Mechanism {
	case "PLAIN":
		return plain.Auth{User: l.User, Pass: l.Password}.AsMechanism()
	case "OAUTHBEARER":
		return oauth.Oauth(func(ctx context.Context) (oauth.Auth, error) { return l.token(ctx) })
	case "SCRAM-SHA-256":
		return scram.Auth{User: l.User, Pass: l.Password}.AsSha256Mechanism()
	default:
		return scram.Auth{User: l.User, Pass: l.Password}.AsSha512Mechanism()
	}
}

// token is of the endpoint, by client credentials (RFC 6749, 4.4).
func (l *login) token(ctx context.Context) (oauth.Auth, error) {
	request, err := http.NewRequestWithContext(ctx, "POST", l.Endpoint, strings.NewReader("grant_type=client_credentials"))
	if err != nil {
		return oauth.Auth{}, err
	}
	request.SetBasicAuth(l.User, l.Password)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return oauth.Auth{}, err
	}
	defer answer.Body.Close()
	var given struct {
		Token string `json:"access_token"`
	}
	err = json.NewDecoder(answer.Body).Decode(&given)
	return oauth.Auth{Token: given.Token}, err
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
	config := &tls.Config{RootCAs: roots}
	if s.Certificate != "" {
		own, err := tls.LoadX509KeyPair(s.Certificate, s.Key)
		must("certificate", err)
		config.Certificates = []tls.Certificate{own}
	}
	return config
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

type order struct {
	C         string `json:"c"`
	Topic     string `json:"t"`
	Partition int32  `json:"p"`
	Value     string `json:"v"`
}

func produceOne(client *kgo.Client, o order) {
	record := &kgo.Record{Topic: o.Topic, Partition: o.Partition, Value: []byte(o.Value)}
	client.Produce(context.Background(), record, func(_ *kgo.Record, err error) {
		if err != nil {
			tell("produce_failed", told{"error": err.Error()})
			return
		}
		tell("produced", nil)
	})
}

// commands as they come; the end of input ends the process, so that no member outlives its test.
func commands() <-chan order {
	box := make(chan order)
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			var command order
			must("command", json.Unmarshal(lines.Bytes(), &command))
			box <- command
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
		kgo.OnPartitionsLost(assigned("lost")), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		// Why a connection fails is told there alone.
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn, nil)),
	}
	if s.Instance != "" {
		options = append(options, kgo.InstanceID(s.Instance))
	}
	if encrypted := s.tls(); encrypted != nil {
		options = append(options, kgo.DialTLSConfig(encrypted))
	}
	if s.SASL != nil {
		options = append(options, kgo.SASL(s.SASL.mechanism()))
	}
	client, err := kgo.NewClient(options...)
	must("client", err)
	inbox := commands()
	for {
		select {
		case command := <-inbox:
			if command.C == "close" {
				client.Close()
				return
			}
			if command.C == "produce" {
				produceOne(client, command)
				continue
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
