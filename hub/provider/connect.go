package provider

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/internal/outbound"
)

const (
	// maxModelList bounds the list of models in a response, in bytes. That of a large server has
	// some hundred KiB.
	maxModelList = 1 << 20

	// minEchoed is the shortest key that is searched in the names of models: a shorter one may be a
	// part of a name by chance.
	minEchoed = 4
)

// probeClient returns a client that connects to public addresses, or also to private ones, and
// follows no redirect: the key would go to a server that is not configured.
func probeClient(private bool) *http.Client {
	var allow func(netip.Addr) bool
	if private {
		allow = outbound.IsPrivate
	}
	client := outbound.Public(allow)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client
}

// connect reads the list of models of the target.
func (s *Service) connect(ctx context.Context, to target) ProbeResult {
	req, err := to.request(ctx)
	if err != nil {
		return failed(ProbeConnectFailed)
	}
	res, err := s.client.Do(req)
	if err != nil {
		return failed(codeOf(err))
	}
	defer func() { _ = res.Body.Close() }() // the response was read, or is not needed
	result := to.read(res)
	result.HTTPStatus = res.StatusCode
	if ctx.Err() != nil && !result.OK && result.ErrorCode == ProbeInvalidResponse {
		result.ErrorCode, result.Message = ProbeTimeout, messageOf(ProbeTimeout)
	}
	return result
}

// request returns the request for the list of models, which costs nothing.
func (to target) request(ctx context.Context) (*http.Request, error) {
	path := "/models"
	if to.protocol == ProtocolAnthropic {
		path = "/v1/models?limit=1000"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.baseURL+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Close = true // the next probe looks the name up again
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "agenthost")
	if to.protocol == ProtocolAnthropic {
		req.Header.Set("Anthropic-Version", "2023-06-01")
	}
	switch {
	case to.key == "" || to.authStyle == AuthNone:
	case to.authStyle == AuthBearer:
		req.Header.Set("Authorization", "Bearer "+to.key)
	default:
		req.Header.Set("X-Api-Key", to.key)
	}
	return req, nil
}

// read returns the result for a response.
func (to target) read(res *http.Response) ProbeResult {
	switch status := res.StatusCode; {
	case status == http.StatusOK:
	case status >= 300 && status < 400:
		return failed(ProbeRedirected)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return failed(ProbeUnauthorized)
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed:
		return failed(ProbeNotFound)
	case status == http.StatusTooManyRequests:
		return failed(ProbeRateLimited)
	default:
		return failed(ProbeServerError)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxModelList+1))
	var list struct {
		Data *[]struct {
			ID          string `json:"id"`
			DisplayName string `json:"display_name"`
		} `json:"data"`
	}
	if err != nil || len(body) > maxModelList || json.Unmarshal(body, &list) != nil || list.Data == nil {
		return failed(ProbeInvalidResponse)
	}
	models := []Model{}
	for _, m := range *list.Data {
		if len(models) == maxModels {
			break
		}
		if !to.isName(m.ID) {
			continue
		}
		if !to.isName(m.DisplayName) {
			m.DisplayName = ""
		}
		models = append(models, Model{ID: m.ID, DisplayName: m.DisplayName})
	}
	return ProbeResult{OK: true, Message: "The server accepts the configuration.", Models: models}
}

// isName reports whether text from a server can be displayed as the name of a model. A name that
// contains the key is not displayed.
func (to target) isName(text string) bool {
	switch {
	case text == "" || utf8.RuneCountInString(text) > maxModelID || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }):
		return false
	case to.key == "":
		return true
	}
	return text != to.key && (len(to.key) < minEchoed || !strings.Contains(text, to.key))
}

// codeOf returns the code of a request that failed. The text of the error is not for users: it may
// contain addresses of the hub's network.
func codeOf(err error) string {
	var (
		lookup   *net.DNSError
		cert     *tls.CertificateVerificationError
		alert    tls.AlertError
		timedOut net.Error
	)
	switch {
	case errors.Is(err, outbound.ErrAddress):
		return ProbeAddressDenied
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timedOut) && timedOut.Timeout():
		return ProbeTimeout
	case errors.As(err, &lookup):
		return ProbeLookupFailed
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &cert), errors.As(err, &alert):
		return ProbeTLSFailed
	}
	return ProbeConnectFailed
}

func failed(code string) ProbeResult { return ProbeResult{ErrorCode: code, Message: messageOf(code)} }

// messageOf returns the message of an error code, with the remedy.
func messageOf(code string) string {
	switch code {
	case ProbeAddressDenied:
		return "The address is private or reserved: use a public one, or permit probes of private addresses in the settings of the hub."
	case ProbeLookupFailed:
		return "The host name cannot be resolved: check the base URL."
	case ProbeTLSFailed:
		return "No secure connection can be made: check the scheme of the base URL and the certificate of the server."
	case ProbeTimeout:
		return "The server does not respond in time: check the base URL and the server."
	case ProbeRedirected:
		return "The server redirects: use the address of the API itself as the base URL."
	case ProbeUnauthorized:
		return "The server rejects the key: check the key and how it is sent."
	case ProbeNotFound:
		return "The server has no list of models at this address: check the base URL and the protocol."
	case ProbeRateLimited:
		return "The server is limiting requests: try again later."
	case ProbeServerError:
		return "The server responds with an error: try again later, or check the base URL."
	case ProbeInvalidResponse:
		return "The server does not respond with a list of models: check the base URL and the protocol."
	case ProbeKeyUnreadable:
		return "The stored key cannot be opened: enter the key again."
	default: // ProbeConnectFailed
		return "The server cannot be reached: check the base URL and the server."
	}
}
