package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientapi "k8s.io/client-go/tools/clientcmd/api"
)

// An identity is who a client says it is: RBAC and the node authorizer go by exactly these names.
type identity struct{ file, user, group string }

func clients(node string) []identity {
	return []identity{
		{"admin", "kubernetes-admin", "system:masters"},
		{"controller-manager", "system:kube-controller-manager", ""},
		{"scheduler", "system:kube-scheduler", ""},
		{"kubelet", "system:node:" + node, "system:nodes"},
		{"proxy", "system:kube-proxy", ""},
		{"policies", "slatekeeper:policies", ""},
		{"volumes", "slatekeeper:volumes", ""},
	}
}

// certs writes an authority, the keys of the servers, and a kubeconfig for every client. The cluster is thrown away long
// before a year is over, so nothing is ever renewed.
func certs() error {
	flags := flag.NewFlagSet("certs", flag.ExitOnError)
	dir := flags.String("dir", "", "folder to write to")
	cluster := flags.String("cluster", "", "name of the cluster, for the contexts of the kubeconfigs")
	node := flags.String("node", "", "name of the node")
	server := flags.String("server", "", "url of the API server")
	names := flags.String("names", "", "comma-separated names and addresses of the API server and the node")
	_ = flags.Parse(os.Args[1:]) // ends the program itself

	out := folder{path: *dir}
	authority := out.authority("slatekeeper-" + *cluster)
	addresses := strings.Split(*names, ",")
	authority.issue("apiserver", subject("kube-apiserver", ""), addresses)
	authority.issue("kubelet", subject("system:node:"+*node, "system:nodes"), append(addresses, *node))
	authority.issue("apiserver-kubelet-client", subject("kube-apiserver-kubelet-client", "system:masters"), nil)
	authority.issue("front-proxy-client", subject("front-proxy-client", ""), nil)
	out.key("service-accounts.key")
	for _, who := range clients(*node) {
		authority.kubeconfig(who, *cluster, *server)
	}
	return out.err
}

// A folder remembers the first thing that went wrong, so that what follows need not ask after every line.
type folder struct {
	path string
	err  error
}

func (f *folder) write(name string, data []byte) {
	if f.err == nil {
		f.err = os.WriteFile(filepath.Join(f.path, name), data, 0o600)
	}
}

func (f *folder) newKey() (*ecdsa.PrivateKey, []byte) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err == nil {
		var der []byte
		if der, err = x509.MarshalECPrivateKey(key); err == nil {
			return key, block("EC PRIVATE KEY", der)
		}
	}
	f.err = err
	return nil, nil
}

func (f *folder) key(name string) {
	_, text := f.newKey()
	f.write(name, text)
}

type authority struct {
	*folder
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	text        []byte
}

func (f *folder) authority(name string) *authority {
	key, keyText := f.newKey()
	a := &authority{folder: f, certificate: template(subject(name, "")), key: key}
	a.certificate.IsCA, a.certificate.BasicConstraintsValid = true, true
	a.certificate.KeyUsage, a.certificate.ExtKeyUsage = x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature, nil
	a.text, _ = a.sign(a.certificate, key)
	f.write("ca.crt", a.text)
	f.write("ca.key", keyText)
	return a
}

// sign certifies the public half of key, or makes a key if there is none.
func (a *authority) sign(certificate *x509.Certificate, key *ecdsa.PrivateKey) (text, keyText []byte) {
	if key == nil {
		key, keyText = a.newKey()
	}
	if a.err != nil {
		return nil, nil
	}
	der, err := x509.CreateCertificate(rand.Reader, certificate, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		a.err = err
	}
	return block("CERTIFICATE", der), keyText
}

func (a *authority) issue(name string, who pkix.Name, addresses []string) {
	certificate := template(who)
	for _, address := range addresses {
		if ip := net.ParseIP(address); ip != nil {
			certificate.IPAddresses = append(certificate.IPAddresses, ip)
		} else {
			certificate.DNSNames = append(certificate.DNSNames, address)
		}
	}
	text, keyText := a.sign(certificate, nil)
	a.write(name+".crt", text)
	a.write(name+".key", keyText)
}

func (a *authority) kubeconfig(who identity, cluster, server string) {
	text, keyText := a.sign(template(subject(who.user, who.group)), nil)
	config := clientapi.NewConfig()
	config.Clusters[cluster] = &clientapi.Cluster{Server: server, CertificateAuthorityData: a.text}
	config.AuthInfos[who.file] = &clientapi.AuthInfo{ClientCertificateData: text, ClientKeyData: keyText}
	config.Contexts[cluster] = &clientapi.Context{Cluster: cluster, AuthInfo: who.file}
	config.CurrentContext = cluster
	data, err := clientcmd.Write(*config)
	if err != nil {
		a.err = err
	}
	a.write(who.file+".kubeconfig", data)
}

func subject(name, group string) pkix.Name {
	who := pkix.Name{CommonName: name}
	if group != "" {
		who.Organization = []string{group}
	}
	return who
}

func template(who pkix.Name) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      who,
		NotBefore:    now.Add(-time.Hour), // clocks of a host and its virtual machines differ a little
		NotAfter:     now.AddDate(1, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
