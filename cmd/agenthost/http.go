package main

import (
	"net/http"

	"github.com/seed93082962/agenthost/internal/outbound"
)

// httpClient returns a client that uses the proxy of the environment.
func httpClient() *http.Client {
	transport := outbound.Transport()
	transport.Proxy = http.ProxyFromEnvironment
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}
