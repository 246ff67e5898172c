package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"slatekeeper.io/kube/firewall"
)

// policies keeps the node's firewall in step with the NetworkPolicies of the cluster until it is told to stop.
//
// Upstream's agent asks user space about every first packet through a netfilter queue; nftables' own queue expression is
// not in every kernel, so here the policies become plain rules.
func policies() error {
	flags := flag.NewFlagSet("policies", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "how to reach the API server")
	_ = flags.Parse(os.Args[1:]) // ends the program itself
	return watch(*kubeconfig, func(v view) ([]cache.SharedIndexInformer, func(context.Context) error) {
		pods, namespaces := v.Core().V1().Pods(), v.Core().V1().Namespaces()
		rules := v.Networking().V1().NetworkPolicies()
		var last string
		look := func(ctx context.Context) error {
			// Listers read what the informers keep in memory: with nothing to select by, they cannot fail.
			allPods, _ := pods.Lister().List(labels.Everything())
			allNamespaces, _ := namespaces.Lister().List(labels.Everything())
			allPolicies, _ := rules.Lister().List(labels.Everything())
			text := firewall.Ruleset(allPods, allNamespaces, allPolicies)
			if text == last {
				return nil // most changes of pods are not about labels or addresses
			}
			if err := load(ctx, text); err != nil {
				return err
			}
			last = text
			return nil
		}
		return []cache.SharedIndexInformer{pods.Informer(), namespaces.Informer(), rules.Informer()}, look
	})
}

// load replaces the whole table in one transaction: no packet meets half of the rules.
func load(ctx context.Context, text string) error {
	command := exec.CommandContext(ctx, "nft", "-f", "-")
	command.Stdin = strings.NewReader(text)
	var said bytes.Buffer
	command.Stderr = &said
	if err := command.Run(); err != nil {
		return fmt.Errorf("nft refused the rules (%w): %s\n%s", err, said.String(), text)
	}
	return nil
}
