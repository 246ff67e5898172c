"""What runs on a local node and how it is configured: a pure function of the cluster's names and addresses.

The paths here are the node's own: it has a file system view, a network and process ids of its own (``node.py``), so they
are the same in every cluster and collide with nothing of the host's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath

from tests.cluster.tool.names import Addresses, Names

HOME = PurePosixPath("/run/slatekeeper/home")  # the cluster's folder in the project
PROGRAMS = PurePosixPath("/run/slatekeeper/programs")  # the cache's folder that holds the one binary
KUBE = PROGRAMS / "kube"
VOLUMES = PurePosixPath("/var/lib/volumes")
CONTAINERD_SOCKET = PurePosixPath("/run/containerd/containerd.sock")
PAUSE_IMAGE = "localhost/slatekeeper/pause:1"
API_PORT = 6443
BASE_APPLIED = "base-applied"  # a file in the home: the node's own controllers have their rights

_PKI, _CONFIG = HOME / "pki", HOME / "config"
_ETCD = "http://127.0.0.1:2379"
_NO_RESOLVER = _CONFIG / "resolv.conf"  # empty: pods take no search domains from the host


@dataclass(frozen=True)
class Component:
    """A process of the node. It is started when all that it needs is there (``tcp:HOST:PORT`` accepts connections, the
    API server at ``api:HOST:PORT`` calls itself ready, ``file:PATH`` exists) and started again when it ends."""

    name: str
    command: tuple[str, ...]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What the first process of a node must know to be one."""

    hostname: str
    state_size: str
    network: tuple[tuple[str, ...], ...]  # commands that address the node's interfaces
    components: tuple[Component, ...]

    def dump(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def load(cls, text: str) -> Plan:
        fields = json.loads(text)
        components = tuple(
            Component(item["name"], tuple(item["command"]), tuple(item["needs"])) for item in fields["components"]
        )
        network = tuple(tuple(command) for command in fields["network"])
        return cls(fields["hostname"], fields["state_size"], network, components)


def etcd(data: str, client: str, peer: str) -> list[str]:
    """Its data is thrown away with the cluster, so it need not survive a power cut."""
    return [
        "etcd", "--data-dir", data, "--unsafe-no-fsync", "--log-level", "warn",
        "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
    ]  # fmt: skip


def apiserver(pki: str, etcd: str, address: str, port: int, services: str) -> list[str]:
    """What the API server needs in every flavour."""
    return [
        "kube-apiserver",
        f"--etcd-servers={etcd}",
        f"--bind-address={address}",
        f"--advertise-address={address}",
        f"--secure-port={port}",
        f"--service-cluster-ip-range={services}",
        f"--client-ca-file={pki}/ca.crt",
        f"--tls-cert-file={pki}/apiserver.crt",
        f"--tls-private-key-file={pki}/apiserver.key",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged",  # what a pod may be is for Pod Security to say, namespace by namespace
        "--enable-admission-plugins=NodeRestriction",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={pki}/service-accounts.key",
        f"--service-account-signing-key-file={pki}/service-accounts.key",
    ]


def plan(names: Names, addresses: Addresses, state_size: str) -> Plan:
    node, api = str(addresses.node), f"api:{addresses.node}:{API_PORT}"
    containerd, base = f"file:{CONTAINERD_SOCKET}", f"file:{HOME / BASE_APPLIED}"

    # The others would wait for the API server by themselves, but ever longer from try to try.
    def kube(*words: str, needs: tuple[str, ...] = (api,)) -> Component:
        return Component(words[0], (str(KUBE), *words), needs)

    def config(client: str) -> str:
        return f"--kubeconfig={_PKI}/{client}.kubeconfig"

    components = (
        kube(*etcd("/var/lib/etcd", _ETCD, "http://127.0.0.1:2380"), needs=()),
        kube(
            *apiserver(str(_PKI), _ETCD, node, API_PORT, str(addresses.services)),
            "--kubelet-preferred-address-types=InternalIP",  # the node's name is in nobody's DNS
            f"--kubelet-certificate-authority={_PKI}/ca.crt",
            f"--kubelet-client-certificate={_PKI}/apiserver-kubelet-client.crt",
            f"--kubelet-client-key={_PKI}/apiserver-kubelet-client.key",
            f"--requestheader-client-ca-file={_PKI}/ca.crt",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={_PKI}/front-proxy-client.crt",
            f"--proxy-client-key-file={_PKI}/front-proxy-client.key",
            needs=("tcp:127.0.0.1:2379",),
        ),
        kube(
            "kube-controller-manager",
            config("controller-manager"),
            "--leader-elect=false",
            "--use-service-account-credentials",
            "--bind-address=127.0.0.1",
            f"--service-account-private-key-file={_PKI}/service-accounts.key",
            f"--root-ca-file={_PKI}/ca.crt",
            f"--cluster-signing-cert-file={_PKI}/ca.crt",
            f"--cluster-signing-key-file={_PKI}/ca.key",
        ),
        kube("kube-scheduler", config("scheduler"), "--leader-elect=false", "--bind-address=127.0.0.1"),
        Component("containerd", ("containerd", "--config", str(_CONFIG / "containerd.toml"))),
        kube(
            "kubelet",
            config("kubelet"),
            f"--config={_CONFIG}/kubelet.yaml",
            f"--hostname-override={names.node}",
            f"--node-ip={node}",
            needs=(containerd, api),
        ),
        kube("kube-proxy", f"--config={_CONFIG}/kube-proxy.yaml"),
        kube("policies", config("policies"), needs=(base,)),
        kube("volumes", config("volumes"), f"--root={VOLUMES}", f"--node={names.node}", needs=(base,)),
    )
    return Plan(names.node, state_size, tuple(_network(addresses)), components)


def _network(addresses: Addresses) -> Iterator[tuple[str, ...]]:
    """Services need no interface, but a process of the node finds them only where some route leads: the default one."""
    yield "ip", "link", "set", "lo", "up"
    yield "ip", "address", "add", addresses.inside(addresses.node), "dev", "eth0"
    yield "ip", "link", "set", "eth0", "up"
    yield "ip", "route", "add", "default", "via", str(addresses.host)


def files(names: Names, addresses: Addresses) -> dict[str, str]:
    """The configuration files of the components, by their names in the folder ``config``."""
    return {
        "containerd.toml": _CONTAINERD,
        "10-pods.conflist": json.dumps(_pod_network(addresses), indent=1),
        "kubelet.yaml": json.dumps(_kubelet(names, addresses), indent=1),  # JSON is YAML
        "kube-proxy.yaml": json.dumps(_kube_proxy(names, addresses), indent=1),
        "resolv.conf": "",
    }


_CONTAINERD = f"""version = 2
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  # A machine that is itself a container may not lower a process's oom_score_adj, and runc would fail at it.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{_CONFIG}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
"""


def _pod_network(addresses: Addresses) -> dict[str, object]:
    """A cable from each pod to the node and no bridge: every packet between pods is routed, so it meets the rules of
    services and policies whatever the kernel does with bridged ones."""
    ipam = {
        "type": "host-local",
        "dataDir": "/run/cni-addresses",
        "ranges": [[{"subnet": str(addresses.pods)}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    return {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [{"type": "ptp", "ipam": ipam}, {"type": "portmap", "capabilities": {"portMappings": True}}],
    }


def _kubelet(names: Names, addresses: Addresses) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{names.cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "address": str(addresses.node),
        "tlsCertFile": f"{_PKI}/kubelet.crt",
        "tlsPrivateKeyFile": f"{_PKI}/kubelet.key",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{_PKI}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "clusterDNS": [str(addresses.dns)],
        "clusterDomain": "cluster.local",
        "resolvConf": str(_NO_RESOLVER),
        "serializeImagePulls": False,
        "imageGCHighThresholdPercent": 100,  # nothing can be pulled again, so nothing is ever dropped
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "syncFrequency": "10s",
    }


def _kube_proxy(names: Names, addresses: Addresses) -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "bindAddress": str(addresses.node),
        "hostnameOverride": names.node,
        "clusterCIDR": str(addresses.pods),
        "clientConnection": {"kubeconfig": f"{_PKI}/proxy.kubeconfig"},
        "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},  # the host's affair
        "nodePortAddresses": ["primary"],
    }
