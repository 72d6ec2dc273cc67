package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// An idempotent producer of franz-go's defaults that sends NAME/0, NAME/1, ... to several partitions without waiting, in
// small batches, until its input ends. Then it prints {"sent": N, "failed": {"partition": [numbers]}}.
//
// Usage: go_tools produce BOOTSTRAP TOPIC 1,2,3 NAME REQUEST_TIMEOUT_MS
func produce(arguments []string) {
	bootstrap, topic, name := arguments[0], arguments[1], arguments[3]
	patience, err := strconv.Atoi(arguments[4])
	must("time-out", err)
	partitions := []int32{}
	for _, one := range strings.Split(arguments[2], ",") {
		number, err := strconv.Atoi(one)
		must("partition", err)
		partitions = append(partitions, int32(number))
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.ClientID(name),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(2*time.Millisecond),
		kgo.ProducerBatchMaxBytes(512), kgo.MaxBufferedRecords(1000), kgo.ProduceRequestTimeout(time.Duration(patience)*time.Millisecond),
		kgo.RequestTimeoutOverhead(500*time.Millisecond))
	must("client", err)
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	var lock sync.Mutex
	failed := map[string][]int{}
	sent := 0
	for running := true; running; {
		number := sent
		sent++
		for _, partition := range partitions {
			record := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(fmt.Sprintf("%s/%d", name, number))}
			client.Produce(context.Background(), record, func(record *kgo.Record, err error) {
				if err != nil {
					lock.Lock()
					defer lock.Unlock()
					key := strconv.Itoa(int(record.Partition))
					failed[key] = append(failed[key], number)
				}
			})
		}
		select {
		case <-ended:
			running = false
		case <-time.After(8 * time.Millisecond):
		}
	}
	must("flush", client.Flush(context.Background()))
	client.Close()
	lock.Lock()
	defer lock.Unlock()
	must("json", json.NewEncoder(os.Stdout).Encode(told{"sent": sent, "failed": failed}))
}
