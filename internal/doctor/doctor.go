// Package doctor checks an installation and returns what is wrong with it and how to fix it. A
// check changes nothing.
//
//	results := doctor.Run(ctx, doctor.Check{Name: "disk", Do: func(context.Context) []doctor.Result {
//		return doctor.Disk("/var/lib/hub")
//	}})
//	failed := doctor.Failed(results)
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
)

// Status is what a result means.
type Status string

// Statuses.
const (
	OK      Status = "ok"
	Warning Status = "warning" // the hub works, with a limit
	Error   Status = "error"   // something does not work
)

// Result is a fact that a check found.
type Result struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	Fact   string `json:"fact"`
	Fix    string `json:"fix,omitempty"` // what to do; "" if the status is OK
}

// Fine returns a result without a fault.
func Fine(fact string) []Result { return []Result{{Status: OK, Fact: fact}} }

// Warn returns a fault with which the hub works.
func Warn(fact, fix string) []Result { return []Result{{Status: Warning, Fact: fact, Fix: fix}} }

// Fail returns a fault with which something does not work.
func Fail(fact, fix string) []Result { return []Result{{Status: Error, Fact: fact, Fix: fix}} }

// Check examines one part of an installation. Do returns no results if the installation does not
// have that part.
type Check struct {
	Name   string
	Within time.Duration // Defaults to 15 s.
	Do     func(ctx context.Context) []Result
}

const defaultWithin = 15 * time.Second

// Run runs the checks in their order and returns their results with their names.
func Run(ctx context.Context, checks ...Check) []Result {
	var all []Result
	for _, c := range checks {
		if c.Within == 0 {
			c.Within = defaultWithin
		}

		limited, cancel := context.WithTimeout(ctx, c.Within)
		for _, r := range c.Do(limited) {
			r.Check = c.Name
			all = append(all, r)
		}

		cancel()
	}

	return all
}

// Failed returns the number of results that are errors.
func Failed(results []Result) int {
	var n int
	for _, r := range results {
		if r.Status == Error {
			n++
		}
	}

	return n
}

// Health requests the liveness of a hub below a base URL, and returns its version.
func Health(ctx context.Context, base string) (string, error) {
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
	var body struct {
		Status  string `json:"status"`
		Version string `json:"version"`
		Agents  *int   `json:"agents"` // only a runtime has it
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil {
		return "", err
	}

	if err := jsonlimit.Unmarshal(text, &body); err != nil || res.StatusCode != http.StatusOK || body.Status != "ok" || body.Version == "" || body.Agents != nil {
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
