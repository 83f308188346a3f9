package clustertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority issues the certificates of a cluster.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}

	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "cluster"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}

	cert, err := x509.ParseCertificate(der)
	return &authority{cert: cert, key: key}, err
}

// pem returns the certificate of the authority.
func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// issue returns a certificate for a client and server, and its key.
func (a *authority) issue(name, group string, addresses ...string) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}

	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, nil, err
	}

	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	if group != "" {
		template.Subject.Organization = []string{group}
	}

	for _, address := range addresses {
		if parsed := net.ParseIP(address); parsed != nil {
			template.IPAddresses = append(template.IPAddresses, parsed)
		} else {
			template.DNSNames = append(template.DNSNames, address)
		}
	}

	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &private.PublicKey, a.key)
	if err != nil {
		return nil, nil, err
	}

	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}

	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), nil
}

// write stores a certificate and its key as files NAME.crt and NAME.key of a directory.
func (a *authority) write(dir, name, user, group string, addresses ...string) error {
	cert, key, err := a.issue(user, group, addresses...)
	if err != nil {
		return fmt.Errorf("issue %s: %w", name, err)
	}

	if err := os.WriteFile(filepath.Join(dir, name+".crt"), cert, 0o600); err != nil {
		return err
	}

	return os.WriteFile(filepath.Join(dir, name+".key"), key, 0o600)
}

// server returns the configuration of a TLS server that only clients of the authority may call.
func (a *authority) server(address string) (*tls.Config, error) {
	cert, key, err := a.issue("system:node", "system:nodes", address)
	if err != nil {
		return nil, err
	}

	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}

	clients := x509.NewCertPool()
	clients.AddCert(a.cert)
	return &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
	}, nil
}
