package natsbus_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/run/natsbus"
)

func TestURLs(t *testing.T) {
	for text, want := range map[string]natsbus.Config{
		"nats://host:4222": {Servers: []string{"nats://host:4222"}, Bucket: "agenthost-runs"},
		"tls://u:p,%40@one,[::1]:4223/b?credentials=/c&ca=/a&cert=/x&key=/k": {
			Servers: []string{"tls://u:p,%40@one", "tls://u:p,%40@[::1]:4223"}, Bucket: "b",
			CredentialsFile: "/c", CAFile: "/a", CertFile: "/x", KeyFile: "/k",
		},
		"nats://host/b?nkey=/n":                   {Servers: []string{"nats://host"}, Bucket: "b", SeedFile: "/n"},
		"nats://token@host/b/":                    {Servers: []string{"nats://token@host"}, Bucket: "b"},
		"nats://host/b/part-1":                    {Servers: []string{"nats://host"}, Bucket: "b", Scope: "part-1"},
		"nats://u:@@host":                         {Servers: []string{"nats://u:@@host"}, Bucket: "agenthost-runs"},
		"nats://host" + strings.Repeat("/", 8181): {Servers: []string{"nats://host"}, Bucket: "agenthost-runs"},
		"nats://host/" + strings.Repeat("b", 64) + "/" + strings.Repeat("s", 64): {
			Servers: []string{"nats://host"}, Bucket: strings.Repeat("b", 64), Scope: strings.Repeat("s", 64),
		},
	} {
		got, err := natsbus.Parse(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{
		"", "host", "http://secret@host", "nats://", "nats:///b", "nats://secret@", "nats://u:secret%zz@host", "nats://secret@host,",
		"nats://secret@host/a/b/c", "nats://secret@host/a/b.c", "nats://secret@host/a.b", "nats://secret@host/*", "nats://secret@host/%3e", "nats://secret@host/b?unknown=x",
		"nats://secret@host/?ca=", "nats://secret@host/?ca=a&ca=b", "nats://secret@host?cert=a", "nats://secret@host?key=a", "nats://secret@host#f",
		"nats://secret@host?%zz", "nats://secret@host?credentials=a&nkey=b", "nats://secret@host" + strings.Repeat("/", 8175),
		"nats://secret@host/" + strings.Repeat("b", 65), "nats://secret@host/b/" + strings.Repeat("s", 65), "nats://secret@host/b?credentials=%zz",
	} {
		_, err := natsbus.Parse(text)
		require.Error(t, err, text)
		require.NotContains(t, err.Error(), "secret")
	}
	_, err := natsbus.Parse("nats:///b")
	require.EqualError(t, err, "the URL must begin with nats:// or tls:// and a host")
}

func TestSecrets(t *testing.T) {
	require.Empty(t, (&natsbus.Config{CAFile: "ca", CertFile: "cert"}).Secrets())
	cfg := natsbus.Config{CredentialsFile: "credentials", SeedFile: "seed", CAFile: "ca", CertFile: "cert", KeyFile: "key"}
	require.Equal(t, []string{"credentials", "seed", "key"}, cfg.Secrets())
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	ca, secret := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(secret, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	pair, err := tls.LoadX509KeyPair(ca, secret)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	s := serve(t, dir, func(o *server.Options) {
		o.TLS, o.TLSVerify, o.TLSTimeout = true, true, 5
		o.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	})
	address := "tls://" + s.Addr().String()
	bus := open(t, address+"?ca="+ca+"&cert="+ca+"&key="+secret)
	_, err = bus.Get(t.Context(), ids.Random())
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(s.Addr().String())
	require.NoError(t, err)
	all := "?ca=" + ca + "&cert=" + ca + "&key=" + secret
	bus = open(t, url(s, "", all))
	_, err = bus.Get(t.Context(), ids.Random())
	require.NoError(t, err, "the server requires TLS")
	for name, text := range map[string]string{
		"an unknown authority":  address,
		"no client certificate": address + "?ca=" + ca,
		"another host":          "tls://localhost:" + port + all,
		"another host, nats":    "nats://localhost:" + port + all,
	} {
		cfg, err := natsbus.Parse(text)
		require.NoError(t, err)
		_, err = natsbus.Open(t.Context(), cfg)
		require.Error(t, err, name)
	}
}
