package artifact

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// SignedURL returns an address that serves a file without a credential until expiresAt, after ttl
// in whole seconds. The driver signs it if clients can reach it, and otherwise the hub.
func (s *Store) SignedURL(ctx context.Context, ref Ref, ttl time.Duration) (address string, expiresAt time.Time, err error) {
	if err := ref.check(); err != nil {
		return "", time.Time{}, fmt.Errorf("sign link: %w", err)
	}
	expiresAt = s.cfg.Now().Add(ttl).UTC().Truncate(time.Second)
	address, err = s.cfg.Driver.Link(ctx, ref.Key(), expiresAt)
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
