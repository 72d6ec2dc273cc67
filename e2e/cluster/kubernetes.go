package main

import (
	"context"
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	_ "k8s.io/client-go/plugin/pkg/client/auth"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

func runEtcd() { etcdmain.Main(os.Args) }

func runAPIServer()         { os.Exit(cli.Run(apiserver.NewAPIServerCommand())) }
func runControllerManager() { os.Exit(cli.Run(controllers.NewControllerManagerCommand())) }
func runScheduler()         { os.Exit(cli.Run(scheduler.NewSchedulerCommand())) }
func runProxy()             { os.Exit(cli.Run(proxy.NewProxyCommand())) }
func runKubelet()           { os.Exit(cli.Run(kubelet.NewKubeletCommand(context.Background()))) }

func runKubectl() {
	// kubectl reads its verbosity before cobra parses flags: client libraries log while the command is built.
	logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
}
