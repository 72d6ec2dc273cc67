// Package main is every part of a Kubernetes cluster in one program, for the end-to-end tests.
//
// The parts share most of their packages, so one link costs a third of nine. Like busybox, the program
// acts as the part whose name it is called by (a symbolic link). It adds nothing to the parts: each is
// the command that its own project ships, with its own flags.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	_ "time/tzdata"
)

// parts maps the name of a link to the command behind it. A part that returns has succeeded.
var parts = map[string]func(){
	"coredns":                 runCoreDNS,
	"etcd":                    runEtcd,
	"helm":                    runHelm,
	"kube-apiserver":          runAPIServer,
	"kube-controller-manager": runControllerManager,
	"kube-proxy":              runProxy,
	"kube-scheduler":          runScheduler,
	"kubectl":                 runKubectl,
	"kubelet":                 runKubelet,
}

func main() {
	name := filepath.Base(os.Args[0])
	run, known := parts[name]
	if known {
		run()
		return
	}
	names := make([]string, 0, len(parts))
	for part := range parts {
		names = append(names, part)
	}
	slices.Sort(names)
	if len(os.Args) == 2 && os.Args[1] == "--parts" { // the builder asks which links to make
		fmt.Println(strings.Join(names, "\n"))
		return
	}
	fmt.Fprintf(os.Stderr, "%s is no part of a cluster; link this program as one of: %s\n", name, strings.Join(names, ", "))
	os.Exit(2)
}
