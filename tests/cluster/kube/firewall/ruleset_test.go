package firewall

import (
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var (
	web    = pod("shop", "web", "10.0.0.1", core.ContainerPort{Name: "http", ContainerPort: 8080})
	client = pod("shop", "client", "10.0.0.2")
	dns    = pod("system", "dns", "10.0.0.3", core.ContainerPort{Name: "dns", ContainerPort: 53, Protocol: core.ProtocolUDP})
	udp    = core.ProtocolUDP
	all    = []*core.Pod{web, client, dns}
	spaces = []*core.Namespace{
		{ObjectMeta: meta.ObjectMeta{Name: "shop", Labels: map[string]string{"name": "shop"}}},
		{ObjectMeta: meta.ObjectMeta{Name: "system", Labels: map[string]string{"name": "system"}}},
	}
)

func pod(namespace, name, address string, ports ...core.ContainerPort) *core.Pod {
	p := &core.Pod{ObjectMeta: meta.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}}}
	p.Spec.Containers = []core.Container{{Ports: ports}}
	p.Status.PodIP = address
	return p
}

func app(name string) *meta.LabelSelector {
	return &meta.LabelSelector{MatchLabels: map[string]string{"app": name}}
}

func in(selects string, rules ...networking.NetworkPolicyIngressRule) *networking.NetworkPolicy {
	return &networking.NetworkPolicy{
		ObjectMeta: meta.ObjectMeta{Namespace: "shop", Name: "in-" + selects},
		Spec: networking.NetworkPolicySpec{
			PodSelector: *app(selects), Ingress: rules, PolicyTypes: []networking.PolicyType{networking.PolicyTypeIngress},
		},
	}
}

func out(selects string, rules ...networking.NetworkPolicyEgressRule) *networking.NetworkPolicy {
	return &networking.NetworkPolicy{
		ObjectMeta: meta.ObjectMeta{Namespace: "shop", Name: "out-" + selects},
		Spec: networking.NetworkPolicySpec{
			PodSelector: *app(selects), Egress: rules, PolicyTypes: []networking.PolicyType{networking.PolicyTypeEgress},
		},
	}
}

// chain gives the lines of one pod's chain, or nothing if the pod is not isolated.
func chain(text, name string) []string {
	_, rest, found := strings.Cut(text, "\tchain "+name+" {")
	if !found {
		return nil
	}
	body, _, _ := strings.Cut(rest, "\n\t}\n")
	var lines []string
	for _, line := range strings.Split(body, "\n")[1:] {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

func expect(t *testing.T, text, name string, lines ...string) {
	t.Helper()
	if got := chain(text, name); !slices.Equal(got, lines) {
		t.Errorf("chain %s is %q, not %q", name, got, lines)
	}
}

func port(value intstr.IntOrString) []networking.NetworkPolicyPort {
	return []networking.NetworkPolicyPort{{Port: &value}}
}

func TestNobodyIsIsolatedWithoutAPolicy(t *testing.T) {
	if text := Ruleset(all, spaces, nil); strings.Contains(text, "drop") {
		t.Error(text)
	}
}

func TestASelectedPodIsIsolatedInThatDirectionOnly(t *testing.T) {
	text := Ruleset(all, spaces, []*networking.NetworkPolicy{in("web")})
	expect(t, text, "to-10-0-0-1", "drop")
	expect(t, text, "from-10-0-0-1")
	expect(t, text, "to-10-0-0-2")
	if !strings.Contains(text, "10.0.0.1 : jump to-10-0-0-1") {
		t.Error("no way leads to the chain:\n" + text)
	}
}

func TestAnEmptyRuleAllowsEverything(t *testing.T) {
	text := Ruleset(all, spaces, []*networking.NetworkPolicy{in("web", networking.NetworkPolicyIngressRule{})})
	expect(t, text, "to-10-0-0-1", "return", "drop")
}

func TestPeersOfTheSameNamespaceAndOfOthers(t *testing.T) {
	same := networking.NetworkPolicyPeer{PodSelector: app("client")}
	other := networking.NetworkPolicyPeer{
		NamespaceSelector: &meta.LabelSelector{MatchLabels: map[string]string{"name": "system"}},
	}
	nobody := networking.NetworkPolicyPeer{PodSelector: app("dns")} // it is in another namespace
	rule := networking.NetworkPolicyIngressRule{From: []networking.NetworkPolicyPeer{same, other, nobody}}
	text := Ruleset(all, spaces, []*networking.NetworkPolicy{in("web", rule)})
	expect(t, text, "to-10-0-0-1", "ip saddr { 10.0.0.2 } return", "ip saddr { 10.0.0.3 } return", "drop")
}

func TestPeersThatSelectNobodyAllowNothing(t *testing.T) {
	rule := networking.NetworkPolicyIngressRule{From: []networking.NetworkPolicyPeer{{PodSelector: app("ghost")}}}
	expect(t, Ruleset(all, spaces, []*networking.NetworkPolicy{in("web", rule)}), "to-10-0-0-1", "drop")
}

func TestBlocksAndPorts(t *testing.T) {
	last := int32(90)
	block := &networking.IPBlock{CIDR: "10.0.0.0/8", Except: []string{"10.1.0.0/16"}}
	number := intstr.FromInt32(80)
	rule := networking.NetworkPolicyIngressRule{
		From:  []networking.NetworkPolicyPeer{{IPBlock: block}, {IPBlock: &networking.IPBlock{CIDR: "fd00::/8"}}},
		Ports: []networking.NetworkPolicyPort{{Port: &number, EndPort: &last}, {Protocol: &udp}},
	}
	text := Ruleset(all, spaces, []*networking.NetworkPolicy{in("web", rule)})
	expect(t, text, "to-10-0-0-1",
		"ip saddr 10.0.0.0/8 ip saddr != 10.1.0.0/16 tcp dport 80-90 return",
		"ip saddr 10.0.0.0/8 ip saddr != 10.1.0.0/16 ip protocol udp return",
		"drop")
}

func TestANamedPortIsTheReceivers(t *testing.T) {
	name := port(intstr.FromString("http"))
	text := Ruleset(all, spaces, []*networking.NetworkPolicy{
		in("web", networking.NetworkPolicyIngressRule{Ports: name}),
		out("client", networking.NetworkPolicyEgressRule{Ports: name}),
	})
	expect(t, text, "to-10-0-0-1", "tcp dport 8080 return", "drop")
	expect(t, text, "from-10-0-0-2", "ip daddr 10.0.0.1 tcp dport 8080 return", "drop")
}

func TestAPodThatIsOverHasNoRules(t *testing.T) {
	over := pod("shop", "web", "10.0.0.1")
	over.Status.Phase = core.PodSucceeded
	heir := pod("shop", "heir", "10.0.0.1")
	text := Ruleset([]*core.Pod{over, heir}, spaces, []*networking.NetworkPolicy{in("web")})
	expect(t, text, "to-10-0-0-1")
}

func TestTheOrderOfTheWorldDoesNotMatter(t *testing.T) {
	policies := []*networking.NetworkPolicy{in("web"), out("client")}
	one := Ruleset(all, spaces, policies)
	other := Ruleset([]*core.Pod{dns, client, web}, spaces, []*networking.NetworkPolicy{policies[1], policies[0]})
	if one != other {
		t.Errorf("%s\ndiffers from\n%s", one, other)
	}
}
