//go:build docker

package docker_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/docker"
)

const (
	tlsHost = "tcp://127.0.0.1:2376"
	certDir = scratch + "/certificates"
)

// authority signs certificates.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(dir string) (a authority, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return a, err
	}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key, err = a.sign(a.cert, filepath.Join(dir, "ca.pem"), filepath.Join(dir, "ca-key.pem"))
	return a, err
}

// sign writes a certificate and its key.
func (a authority) sign(cert *x509.Certificate, certFile, keyFile string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	signer := a.key
	if signer == nil {
		signer = key
	}
	text, err := x509.CreateCertificate(rand.Reader, cert, a.cert, &key.PublicKey, signer)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, errors.Join(
		os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: text}), 0o600),
		os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), 0o600))
}

// writeCertificates writes those of the engine and of its clients.
func writeCertificates() error {
	a, err := newAuthority(certDir)
	if err != nil {
		return err
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if _, err := a.sign(server, certDir+"/server.pem", certDir+"/server-key.pem"); err != nil {
		return err
	}
	return writeClient(a, certDir)
}

func writeClient(a authority, dir string) error {
	client := &x509.Certificate{SerialNumber: big.NewInt(3), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	_, err := a.sign(client, dir+"/cert.pem", dir+"/key.pem")
	return err
}

func TestEngineWithTLS(t *testing.T) {
	t.Parallel()
	d := open(t, func(c *docker.Config) { c.Host, c.CertDir = tlsHost, certDir })
	require.NoError(t, d.Check(t.Context()))
	x := start(t, d, "acme")
	require.True(t, healthy(x.URL))
}

// What a server and a client do not accept of each other is reported when the hub starts.
func TestEngineWithoutTrust(t *testing.T) {
	t.Parallel()
	other := t.TempDir()
	a, err := newAuthority(other)
	require.NoError(t, err)
	require.NoError(t, writeClient(a, other))
	stranger := t.TempDir()
	require.NoError(t, writeClient(a, stranger))
	ca, err := os.ReadFile(certDir + "/ca.pem")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(stranger+"/ca.pem", ca, 0o600))
	for reason, dir := range map[string]string{"certificate signed by unknown authority": other, "tls: ": stranger, "HTTP request to an HTTPS server": ""} {
		err := open(t, func(c *docker.Config) { c.Host, c.CertDir = tlsHost, dir }).Check(t.Context())
		require.ErrorContains(t, err, reason)
		require.NotErrorIs(t, err, deploy.ErrUnavailable)
	}
	away := open(t, func(c *docker.Config) { c.Host = "tcp://127.0.0.1:1" })
	require.ErrorIs(t, away.Check(t.Context()), deploy.ErrUnavailable)
}

// Ports that an engine on another machine publishes on its loopback address cannot be reached.
func TestEngineOfAnotherMachine(t *testing.T) {
	t.Parallel()
	_, err := docker.New(docker.Config{Host: "tcp://192.0.2.1:2376", Image: runtimeImage})
	require.ErrorContains(t, err, "the Docker engine is on another machine, where the hub cannot reach the agents")
	_, err = docker.New(docker.Config{Host: "tcp://192.0.2.1:2376", Image: runtimeImage, HubContainer: "guess", HubDetected: true})
	require.NoError(t, err)
	for _, host := range []string{"tcp://localhost:2376", "tcp://[::1]:2376", "tcp://" + machine + ":2376"} {
		open(t, func(c *docker.Config) { c.Host = host })
	}
	require.ErrorContains(t, open(t, func(c *docker.Config) { c.HubContainer = "missing" }).Check(t.Context()),
		"the Docker engine has no container missing, in which the hub runs: set docker.hubContainer")
	require.NoError(t, open(t, func(c *docker.Config) { c.HubContainer, c.HubDetected = "missing", true }).Check(t.Context()))
}
