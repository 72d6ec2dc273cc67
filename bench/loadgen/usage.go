package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// CPU time of the servers, read at both ends of the window: user and system time of every thread of each process.

const tickUs = 10_000 // USER_HZ is 100 on every Linux that Go runs on

// processes by the name the caller gave them: "muster=1,2,3;kafka=4,5,6".
type processes map[string][]int

func parseProcesses(text string) (processes, error) {
	all := processes{}
	for _, part := range strings.Split(text, ";") {
		if part == "" {
			continue
		}
		name, list, found := strings.Cut(part, "=")
		if !found {
			return nil, fmt.Errorf("write name=pid,pid: %q", part)
		}
		for _, word := range strings.Split(list, ",") {
			pid, err := strconv.Atoi(word)
			if err != nil {
				return nil, err
			}
			all[name] = append(all[name], pid)
		}
	}
	return all, nil
}

func (p processes) cpuUs() (map[string]int64, error) {
	used := map[string]int64{}
	for name, pids := range p {
		for _, pid := range pids {
			ticks, err := ticksOf(pid)
			if err != nil {
				return nil, err
			}
			used[name] += ticks * tickUs
		}
	}
	return used, nil
}

func ticksOf(pid int) (int64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name in brackets may hold blanks; utime and stime are fields 14 and 15 of proc(5).
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return ticks, nil
}
