// Package firewall turns NetworkPolicies into the rules of nftables: a pure function from objects to text.
package firewall

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A world is what the rules follow from: the pods that have an address of their own, the labels of the namespaces, and
// the policies, all in one order, so that the same world always gives the same text.
type world struct {
	pods       []*core.Pod
	namespaces map[string]labels.Set
	policies   []*networking.NetworkPolicy
}

// Ruleset is the table as nft reads it. What the node itself sends to its pods passes no hook here and is always allowed,
// as the API demands, so that probes work; what pods send to the node, the API server included, must be allowed.
func Ruleset(pods []*core.Pod, namespaces []*core.Namespace, policies []*networking.NetworkPolicy) string {
	w := &world{namespaces: map[string]labels.Set{}, policies: slices.SortedFunc(slices.Values(policies), byName)}
	for _, pod := range pods {
		over := pod.Status.Phase == core.PodSucceeded || pod.Status.Phase == core.PodFailed // its address may be another's
		if pod.Status.PodIP != "" && !pod.Spec.HostNetwork && !over {
			w.pods = append(w.pods, pod)
		}
	}
	slices.SortFunc(w.pods, byName)
	for _, namespace := range namespaces {
		w.namespaces[namespace.Name] = namespace.Labels
	}
	return w.ruleset()
}

func byName[T meta.Object](a, b T) int {
	return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
}

// The two directions of a policy. A pod that any policy selects for a direction is isolated in it: what no rule of such a
// policy allows is dropped. A rule that matches returns from the pod's chain, so that the other end's chain is asked too.
type direction struct {
	kind  networking.PolicyType
	chain string // prefix of the pods' chains
	other string // the side of the packet where the peer stands
	rules func(*networking.NetworkPolicy) []rule
}

type rule struct {
	peers []networking.NetworkPolicyPeer
	ports []networking.NetworkPolicyPort
}

var (
	ingress = direction{networking.PolicyTypeIngress, "to", "saddr", func(p *networking.NetworkPolicy) (rules []rule) {
		for _, r := range p.Spec.Ingress {
			rules = append(rules, rule{r.From, r.Ports})
		}
		return rules
	}}
	egress = direction{networking.PolicyTypeEgress, "from", "daddr", func(p *networking.NetworkPolicy) (rules []rule) {
		for _, r := range p.Spec.Egress {
			rules = append(rules, rule{r.To, r.Ports})
		}
		return rules
	}}
)

func (w *world) ruleset() string {
	chains, from := w.chains(egress)
	more, to := w.chains(ingress)
	return fmt.Sprintf(`table ip policies
delete table ip policies
table ip policies {
	map from { type ipv4_addr : verdict; %s }
	map to { type ipv4_addr : verdict; %s }
%s	chain forward {
		type filter hook forward priority filter; policy accept;
		ct state established,related accept
		ip saddr vmap @from
		ip daddr vmap @to
	}
	chain input {
		type filter hook input priority filter; policy accept;
		ct state established,related accept
		ip saddr vmap @from
	}
}
`, elements(from), elements(to), chains+more)
}

// chains gives one chain for each isolated pod, and the entries of the map that lead to it.
func (w *world) chains(d direction) (text string, entries []string) {
	var all strings.Builder
	for _, pod := range w.pods {
		var lines []string
		isolated := false
		for _, policy := range w.policies {
			if policy.Namespace != pod.Namespace || !selects(&policy.Spec.PodSelector, pod.Labels) ||
				!slices.Contains(policy.Spec.PolicyTypes, d.kind) { // the API server fills the types in
				continue
			}
			isolated = true
			for _, r := range d.rules(policy) {
				lines = append(lines, w.lines(d, policy.Namespace, pod, r)...)
			}
		}
		if isolated {
			name := d.chain + "-" + strings.ReplaceAll(pod.Status.PodIP, ".", "-")
			entries = append(entries, fmt.Sprintf("%s : jump %s", pod.Status.PodIP, name))
			fmt.Fprintf(&all, "\tchain %s { # %s/%s\n", name, pod.Namespace, pod.Name)
			for _, line := range lines {
				fmt.Fprintf(&all, "\t\t%s\n", strings.TrimSpace(strings.TrimSpace(line)+" return"))
			}
			all.WriteString("\t\tdrop\n\t}\n")
		}
	}
	return all.String(), entries
}

// lines are the conditions under which one rule allows a packet: each peer with each port. No peers mean everybody, no
// ports every port; peers that select nobody allow nothing.
func (w *world) lines(d direction, namespace string, pod *core.Pod, r rule) (lines []string) {
	peers := []string{""}
	if len(r.peers) > 0 {
		peers = nil
		for _, peer := range r.peers {
			peers = append(peers, w.peer(d, namespace, peer)...)
		}
	}
	for _, peer := range peers {
		if len(r.ports) == 0 {
			lines = append(lines, peer)
		}
		for _, port := range r.ports {
			lines = append(lines, w.ports(d, peer, pod, port)...)
		}
	}
	return lines
}

func (w *world) peer(d direction, namespace string, peer networking.NetworkPolicyPeer) []string {
	if block := peer.IPBlock; block != nil {
		prefix, err := netip.ParsePrefix(block.CIDR)
		if err != nil || !prefix.Addr().Is4() {
			return nil // pods have addresses of version 4 only
		}
		line := fmt.Sprintf("ip %s %s ", d.other, prefix.Masked())
		for _, except := range block.Except {
			line += fmt.Sprintf("ip %s != %s ", d.other, except)
		}
		return []string{line}
	}
	if addresses := w.addresses(namespace, peer); len(addresses) > 0 {
		return []string{fmt.Sprintf("ip %s { %s } ", d.other, strings.Join(addresses, ", "))}
	}
	return nil
}

func (w *world) chosen(namespace string, peer networking.NetworkPolicyPeer) (pods []*core.Pod) {
	for _, pod := range w.pods {
		near := pod.Namespace == namespace
		if peer.NamespaceSelector != nil {
			near = selects(peer.NamespaceSelector, w.namespaces[pod.Namespace])
		}
		if near && (peer.PodSelector == nil || selects(peer.PodSelector, pod.Labels)) {
			pods = append(pods, pod)
		}
	}
	return pods
}

func (w *world) addresses(namespace string, peer networking.NetworkPolicyPeer) (addresses []string) {
	for _, pod := range w.chosen(namespace, peer) {
		addresses = append(addresses, pod.Status.PodIP)
	}
	return addresses
}

// ports narrows a peer to a port. A named port is the number that the receiving pod's containers give it: the pod's own
// on the way in; on the way out each receiver may have another, so each gets a line.
func (w *world) ports(d direction, peer string, pod *core.Pod, port networking.NetworkPolicyPort) (lines []string) {
	protocol := "tcp"
	if port.Protocol != nil {
		protocol = strings.ToLower(string(*port.Protocol))
	}
	switch {
	case port.Port == nil:
		return []string{fmt.Sprintf("%sip protocol %s", peer, protocol)}
	case port.Port.Type == intstr.Int && port.EndPort != nil:
		return []string{fmt.Sprintf("%s%s dport %d-%d", peer, protocol, port.Port.IntVal, *port.EndPort)}
	case port.Port.Type == intstr.Int:
		return []string{fmt.Sprintf("%s%s dport %d", peer, protocol, port.Port.IntVal)}
	case d.kind == networking.PolicyTypeIngress:
		if number := named(pod, port.Port.StrVal, protocol); number != 0 {
			lines = append(lines, fmt.Sprintf("%s%s dport %d", peer, protocol, number))
		}
	default:
		for _, receiver := range w.pods {
			if number := named(receiver, port.Port.StrVal, protocol); number != 0 {
				lines = append(lines, fmt.Sprintf("%sip daddr %s %s dport %d", peer, receiver.Status.PodIP, protocol, number))
			}
		}
	}
	return lines
}

func named(pod *core.Pod, name, protocol string) int32 {
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == name && strings.EqualFold(cmp.Or(string(port.Protocol), "TCP"), protocol) {
				return port.ContainerPort
			}
		}
	}
	return 0
}

func selects(selector *meta.LabelSelector, set labels.Set) bool {
	s, err := meta.LabelSelectorAsSelector(selector)
	return err == nil && s.Matches(set) // the API server has refused selectors that do not parse
}

func elements(entries []string) string {
	if len(entries) == 0 {
		return ""
	}
	return "elements = { " + strings.Join(entries, ", ") + " }"
}
