package main

import (
	"errors"
	"fmt"
	"os"

	helm "helm.sh/helm/v4/pkg/cmd"
	"helm.sh/helm/v4/pkg/kube"
)

func runHelm() {
	kube.ManagedFieldsManager = "helm" // else objects are owned by this program's name
	root, err := helm.NewRootCmd(os.Stdout, os.Args[1:], helm.SetupLogging)
	if err == nil {
		err = root.Execute()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	if err == nil {
		return
	}
	if coded, ok := errors.AsType[helm.CommandError](err); ok {
		os.Exit(coded.ExitCode)
	}
	os.Exit(1)
}
