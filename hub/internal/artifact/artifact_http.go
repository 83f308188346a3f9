package artifact

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/seed93082962/agenthost/filesafe"
	"github.com/seed93082962/agenthost/hub/blob"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
)

// routePrefix is where the hub serves files.
const routePrefix = "/artifacts"

// Routes returns the routes that serve files.
func (s *Store) Routes() []api.Route {
	return []api.Route{
		{Method: http.MethodGet, Path: routePrefix + "/tools/:hash/:name", Access: api.Open, Handle: s.serveTool},
		{Method: http.MethodGet, Path: routePrefix + "/skills/:hash/:name", Access: api.Open, Handle: s.serveSkill},
	}
}

var (
	errNoFile = wire.NotFound.New("The file does not exist.")
	errLink   = wire.Forbidden.New("The link is not valid or has expired: request a new one.")
)

// serveTool serves to everyone: the content of an address never changes.
func (s *Store) serveTool(w http.ResponseWriter, r *http.Request) error {
	// Pages of other origins may load it, as from a CDN.
	w.Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
	return s.serve(w, r, requested(r, Tools), "public, max-age=31536000, immutable")
}

// serveSkill serves to clients with a signed link.
func (s *Store) serveSkill(w http.ResponseWriter, r *http.Request) error {
	ref := requested(r, Skills)
	if !s.verify(ref, r.URL.Query()) {
		return errLink
	}

	return s.serve(w, r, ref, "private, no-store")
}

func requested(r *http.Request, kind Purpose) Ref {
	return Ref{Kind: kind, Hash: r.PathValue("hash"), Name: r.PathValue("name")}
}

func (s *Store) serve(w http.ResponseWriter, r *http.Request, ref Ref, cacheControl string) error {
	b, err := s.Open(r.Context(), ref)
	if errors.Is(err, blob.ErrNotExist) {
		return errNoFile
	}

	if err != nil {
		return err
	}

	defer func() { _ = b.Close() }() // it was only read
	content := filesafe.Content{
		Body: b.Content, Name: ref.Name, Type: "application/octet-stream", Size: b.Size, Modified: b.Modified, ETag: `"` + ref.Hash + `"`, CacheControl: cacheControl,
	}
	status, err := content.Serve(w, r)
	switch {
	case err != nil:
		return s.failed("read artifact", err)
	case status == http.StatusPreconditionFailed:
		return wire.PreconditionFailed.New("The file has another hash than If-Match names.")
	case status == http.StatusRequestedRangeNotSatisfiable:
		return &wire.Error{Code: wire.InvalidRequest, Status: status, Message: "The range is beyond the end of the file."}
	}

	return nil
}

// SignedURL returns an address that serves a file without a credential, and when it expires: after
// ttl, in whole seconds. The driver signs it if clients can reach it, and otherwise the hub.
func (s *Store) SignedURL(ctx context.Context, ref Ref, ttl time.Duration) (string, time.Time, error) {
	if err := ref.check(); err != nil {
		return "", time.Time{}, fmt.Errorf("sign link: %w", err)
	}

	expiresAt := s.cfg.Now().Add(ttl).UTC().Truncate(time.Second)
	address, err := s.cfg.Driver.Link(ctx, ref.Key(), expiresAt)
	if errors.Is(err, errors.ErrUnsupported) {
		return s.sign(ref, expiresAt), expiresAt, nil
	}

	if err != nil {
		return "", time.Time{}, s.failed("sign link", err)
	}

	return address, expiresAt, nil
}

// purpose separates the keys of links from others of the same keyring.
const purpose = "agenthost artifact link"

func (s *Store) sign(ref Ref, expiresAt time.Time) string {
	expires := strconv.FormatInt(expiresAt.Unix(), 10)
	mac := s.cfg.Keyring.MAC(purpose, signed(ref, expires))
	query := url.Values{"expires": {expires}, "sig": {base64.RawURLEncoding.EncodeToString(mac)}}
	return s.cfg.PublicURL + routePrefix + "/" + escape(ref) + "?" + query.Encode()
}

// signed returns what a link signs. Neither a key nor a number contains a line feed.
func signed(ref Ref, expires string) []byte { return []byte(ref.Key() + "\n" + expires) }

// verify reports whether a query has a signature of the file that has not expired.
func (s *Store) verify(ref Ref, query url.Values) bool {
	expires := query.Get("expires")
	mac, err := base64.RawURLEncoding.Strict().DecodeString(query.Get("sig"))
	if err != nil || !s.cfg.Keyring.VerifyMAC(purpose, signed(ref, expires), mac) {
		return false
	}

	at, err := strconv.ParseInt(expires, 10, 64)
	return err == nil && s.cfg.Now().Before(time.Unix(at, 0))
}
