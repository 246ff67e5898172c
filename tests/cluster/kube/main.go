// Kube is a whole Kubernetes node in one static program: the first argument names the component, the rest are the flags
// that the component has anywhere else. One program instead of nine, because their code is mostly the same: it is linked
// once, cached once, and its pages are shared by all that run.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	_ "time/tzdata" // a CronJob may name any time zone, and a bare node has no database of them

	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

var components = map[string]func() error{
	"certs":                   certs,
	"coredns":                 func() error { coremain.Run(); return nil },
	"etcd":                    func() error { etcdmain.Main(os.Args); return nil },
	"kube-apiserver":          func() error { return command(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() error { return command(controllers.NewControllerManagerCommand()) },
	"kube-proxy":              func() error { return command(proxy.NewProxyCommand()) },
	"kube-scheduler":          func() error { return command(scheduler.NewSchedulerCommand()) },
	"kubectl":                 func() error { return command(kubectl.NewDefaultKubectlCommand()) },
	"kubelet":                 func() error { return command(kubelet.NewKubeletCommand(context.Background())) },
	"policies":                policies,
	"volumes":                 volumes,
}

// command runs a component that is built as a command line of its own; it reports its own errors.
func command(root *cobra.Command) error {
	os.Exit(cli.Run(root))
	return nil
}

func main() {
	var run func() error
	if len(os.Args) > 1 {
		run = components[os.Args[1]]
	}
	if run == nil {
		names := make([]string, 0, len(components))
		for name := range components {
			names = append(names, name)
		}
		slices.Sort(names)
		fmt.Fprintln(os.Stderr, "usage: kube COMPONENT [flags], where COMPONENT is one of", names)
		os.Exit(2)
	}
	os.Args = os.Args[1:] // each component sees the command line it would have as a program of its own
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[0], err)
		os.Exit(1)
	}
}
