package builtin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"

	"github.com/seed93082962/agenthost/internal/domain"
	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/outbound"
	"github.com/seed93082962/agenthost/runtime/tool"
)

const (
	maxPage    = 1 << 20 // bytes of a body
	maxFailure = 2000    // bytes of an error page in the output
	maxURL     = 8 << 10
)

type webFetchInput struct {
	URL string `json:"url"`
}

func newWebFetch(cfg *Config) tool.Tool {
	f := fetcher{maxOutput: cfg.MaxOutput, client: cfg.Client}
	if f.client == nil {
		f.client = outbound.Public(nil)
	}

	fetch := tool.Typed(tool.Spec{
		Name: "WebFetch",
		Description: `Fetches a page of the public web and returns it as text: HTML as Markdown; JSON, XML and plain text unchanged.
Reads at most 1 MiB. Rejects addresses of private networks. Does not follow a redirect to another host or port, but returns its URL, which needs a call of its own.
Scripts of the page do not run, and no user is signed in.`,
		InputSchema: inputSchema(`"url"`, `
    "url": {"type": "string", "description": "The whole URL, with http:// or https://"}`),
	}, f.fetch)
	return previewed{fetch, func(_ context.Context, input json.RawMessage) (string, error) {
		in, err := decodeInput[webFetchInput](input)
		return in.URL, err
	}}
}

type fetcher struct {
	client    *http.Client
	maxOutput int
}

func (f fetcher) fetch(ctx context.Context, in webFetchInput) (tool.Result, error) {
	if err := checkURL(in.URL); err != nil {
		return tool.Result{}, err
	}

	r, err := http.NewRequestWithContext(ctx, http.MethodGet, in.URL, http.NoBody)
	if err != nil {
		return tool.Result{}, errors.New("the URL is malformed")
	}

	r.Header.Set("User-Agent", "agenthost/1")
	r.Header.Set("Accept", "text/markdown, text/html, text/plain;q=0.9, application/json;q=0.9, application/xml;q=0.8, */*;q=0.1")
	client := *f.client
	client.CheckRedirect = sameAuthority(f.client.CheckRedirect)
	res, err := client.Do(r)
	if err != nil {
		return tool.Result{}, fetchError(ctx, in.URL, err)
	}
	defer res.Body.Close()
	if to, err := res.Location(); err == nil && res.StatusCode/100 == 3 {
		return tool.Result{Output: fmt.Sprintf("%s redirects to another host or port: %s\nCall WebFetch with that URL to fetch it.", in.URL, to.Redacted())}, nil
	}

	return f.result(ctx, res)
}

func checkURL(s string) error {
	if len(s) > maxURL {
		return fmt.Errorf("the URL has %d bytes, at most %d are allowed", len(s), maxURL)
	}

	u, err := url.Parse(s)
	switch {
	case err != nil:
		return errors.New("the URL is malformed")
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return errors.New("the URL must begin with http:// or https:// and a host")
	case u.User != nil:
		return errors.New("the URL must not contain a user name or password")
	}

	return nil
}

// sameAuthority follows redirects only within one host and port, because the permission of the call
// covers only these. For any other URL, the model has to make another call, which the policy
// checks.
func sameAuthority(next func(*http.Request, []*http.Request) error) func(*http.Request, []*http.Request) error {
	return func(r *http.Request, via []*http.Request) error {
		if authority(r.URL) != authority(via[0].URL) || r.URL.User != nil {
			return http.ErrUseLastResponse
		}

		if next != nil {
			return next(r, via)
		}

		if len(via) >= 10 { // the default of http.Client
			return errors.New("stopped after 10 redirects")
		}

		return nil
	}
}

func authority(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}

	return domain.Lower(strings.TrimSuffix(u.Hostname(), ".")) + ":" + port
}

func fetchError(ctx context.Context, location string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("fetch %s: %w", location, context.Cause(ctx))
	}

	if errors.Is(err, outbound.ErrAddress) {
		return fmt.Errorf("fetch %s: %w", location, outbound.ErrAddress)
	}

	if wrapped, ok := errors.AsType[*url.Error](err); ok { // its text repeats the URL
		err = wrapped.Err
	}

	return fmt.Errorf("fetch %s: %w", location, err)
}

func (f fetcher) result(ctx context.Context, res *http.Response) (tool.Result, error) {
	at := res.Request.URL.Redacted()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxPage+1))
	if err != nil {
		return tool.Result{}, fetchError(ctx, at, err)
	}

	more := len(body) > maxPage
	body = body[:min(len(body), maxPage)]
	contentType := cmp.Or(res.Header.Get("Content-Type"), http.DetectContentType(body))
	kind, _, _ := mime.ParseMediaType(contentType) // "" if invalid
	failed := res.StatusCode/100 != 2
	if !isText(kind) {
		if !failed {
			size := "more than 1 MiB"
			if res.ContentLength >= 0 || !more {
				size = plural(int(max(res.ContentLength, int64(len(body)))), "byte")
			}

			return tool.Result{}, fmt.Errorf("fetch %s: the response is %s of %q, which is not text", at, size, cmp.Or(kind, contentType))
		}

		body = nil
	}

	p := webPage{text: decode(body, contentType)}
	if kind == "text/html" || kind == "application/xhtml+xml" {
		if p, err = markdown(ctx, p.text, at); err != nil {
			return tool.Result{}, fetchError(ctx, at, err)
		}
	}

	if failed {
		text, truncated := excerpt.Ends(p.text, maxFailure)
		status := strings.TrimSpace(fmt.Sprintf("%d %s", res.StatusCode, http.StatusText(res.StatusCode)))
		return tool.Result{Output: fmt.Sprintf("%s returned %s.\n\n%s", at, status, text), IsError: true, Truncated: truncated || more}, nil
	}

	head, foot := "URL: "+at+"\n", ""
	if p.title != "" {
		head += "Title: " + p.title + "\n"
	}

	switch {
	case more:
		foot = "\n[The page is longer than 1 MiB. The rest was not read.]"
	case p.more:
		foot = fmt.Sprintf("\n[The page has more than %d elements. The rest was not read.]", maxNodes)
	}

	more = more || p.more
	text, truncated := excerpt.Ends(cmp.Or(p.text, "(the page is empty)"), max(f.maxOutput-len(head)-len(foot)-1, 0))
	return tool.Result{Output: strings.ToValidUTF8(head, "\uFFFD") + "\n" + text + foot, Truncated: truncated || more}, nil
}

// textTypes are the media types of text, in addition to text/*, +json, +xml and +yaml.
var textTypes = []string{
	"application/ecmascript", "application/graphql", "application/javascript", "application/json", "application/jsonl",
	"application/ndjson", "application/rtf", "application/sql", "application/toml", "application/x-javascript",
	"application/x-ndjson", "application/x-sh", "application/x-yaml", "application/xml", "application/yaml", "message/rfc822",
}

func isText(kind string) bool {
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml") ||
		strings.HasSuffix(kind, "+yaml") || slices.Contains(textTypes, kind)
}

// decode converts a body to UTF-8. The byte order mark, the header or <meta> gives the encoding.
// Without them, text that is not UTF-8 is treated as Windows-1252, as in browsers.
func decode(body []byte, contentType string) string {
	encoding, name, certain := charset.DetermineEncoding(body, contentType)
	if name != "utf-8" && (certain || name != "windows-1252" || !utf8.Valid(body[:wholeRunes(body)])) {
		if decoded, err := encoding.NewDecoder().Bytes(body); err == nil {
			body = decoded
		}
	}

	decoded := strings.ToValidUTF8(strings.TrimPrefix(string(body), "\uFEFF"), "\uFFFD")
	return strings.ReplaceAll(decoded, "\x00", "\uFFFD")
}
