// loadgen speaks Kafka's protocol in raw frames to measure servers: its own cost per request is a few microseconds,
// and its limit is measured against its own compiled echo server (see docs/benchmarks.md).
//
//	loadgen load  --bootstrap A,B --op heartbeat --connections 50 --depth 1     closed loop
//	loadgen load  --bootstrap A,B --op commit --rate 2700                       open loop
//	loadgen storm --bootstrap A,B --members 1000                                join to stable, forced rebalances
//	loadgen connect --bootstrap A,B --ca FILE                                   connections and handshakes a second
//	loadgen fill | check | members | hold                                       state for other measurements
//	loadgen echo  --port P                                                      the compiled echo server
//
// One JSON document on standard output; a sentence on standard error and exit code 1 when something went wrong.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
)

func main() {
	commands := map[string]func([]string) (any, error){
		"load": runLoad, "storm": runStorm, "fill": runFill, "check": runCheck, "members": runMembers,
		"hold": runHold, "echo": runEcho, "connect": runConnect,
	}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fail(fmt.Errorf("first argument: load, storm, fill, check, members, hold, connect or echo"))
	}
	document, err := commands[os.Args[1]](os.Args[2:])
	if err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(document); err != nil {
		fail(err)
	}
}

func runEcho(arguments []string) (any, error) {
	f := flag.NewFlagSet("echo", flag.ContinueOnError)
	port := f.Int("port", 0, "on loopback")
	threads := f.Int("threads", 1, "")
	if err := f.Parse(arguments); err != nil {
		return nil, err
	}
	return nil, serveEcho(*port, *threads)
}
