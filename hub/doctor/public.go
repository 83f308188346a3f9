package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Health requests the liveness of a hub below a base URL, and returns its version.
func Health(ctx context.Context, base string) (version string, err error) {
	transport := &http.Transport{TLSHandshakeTimeout: 5 * time.Second, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(base, "/")+"/health", nil)
	if err != nil {
		return "", err
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	var body struct{ Status, Version string }
	text, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(text, &body); err != nil || res.StatusCode != http.StatusOK || body.Status != "ok" || body.Version == "" {
		return "", fmt.Errorf("%w: the status is %d", ErrNotHub, res.StatusCode)
	}
	return body.Version, nil
}

// ErrNotHub is the error of [Health] if something else than a hub responds.
var ErrNotHub = errors.New("the response is not one of a hub")

// PublicURL checks that requests to the public address reach a hub, and that the hub knows its
// proxies.
func PublicURL(ctx context.Context, base string, trustsProxies bool) []Result {
	var results []Result
	if strings.HasPrefix(base, "https://") && !trustsProxies {
		results = Warn("the public address has https, which a proxy terminates, and no proxy is trusted: the audit log has the address of the proxy for every request, "+
			"and failed logins from one client lock an account for all", "name the networks of the proxies in HUB_TRUSTED_PROXIES")
	}
	version, err := Health(ctx, base)
	switch {
	case errors.Is(err, ErrNotHub):
		return append(results, Fail(fmt.Sprintf("%s is not a hub: %v", base, err), "let the proxy forward every path below HUB_PUBLIC_URL to the hub, or correct HUB_PUBLIC_URL")...)
	case err != nil:
		return append(results, Warn(fmt.Sprintf("%s does not respond: %v", base, err), "start the hub; then check the proxy, DNS and the certificate of HUB_PUBLIC_URL")...)
	}
	return append(results, Fine(fmt.Sprintf("%s is a hub of version %s", base, version))...)
}
