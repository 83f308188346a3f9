package external

import (
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"

	"github.com/seed93082962/agenthost/hub/api"
)

// startedElsewhere reports whether another site may have started the login: it could replace the
// session of the user by one of another account. Browsers send Sec-Fetch-Site, except old ones and
// those that reach the hub by http. Without it, a Referer of the hub is a signal too, and the login
// is only suspicious in a browser that has the cookie of a login: a program has neither.
func (s *Service) startedElsewhere(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none": // none: the user typed the address or opened a bookmark
		return false
	case "":
	default:
		return true
	}
	if referer := r.Header.Get("Referer"); referer != "" {
		return referer != s.cfg.PublicURL && !strings.HasPrefix(referer, s.cfg.PublicURL+"/")
	}
	return len(r.CookiesNamed(s.cookieName())) > 0
}

// confirmation returns the parameter that confirms a login in the browser. Another site does not
// know the cookie.
func confirmation(browser string, in LoginInput) string {
	return hex.EncodeToString(hash("confirm\x00" + browser + "\x00" + in.Org + "\x00" + in.ReturnTo))
}

// confirmed reports whether the user confirmed the login.
func confirmed(given string, in LoginInput) bool {
	return isToken(in.Browser) && subtle.ConstantTimeCompare([]byte(given), []byte(confirmation(in.Browser, in))) == 1
}

// askToConfirm responds with a page that continues the login. It starts nothing.
func (s *Service) askToConfirm(w http.ResponseWriter, r *http.Request, in LoginInput) error {
	if fault := checkReturnTo(in.ReturnTo); fault != "" {
		return api.Fields{"return_to": fault}
	}
	org, err := s.CheckOrg(r.Context(), in.Org)
	if err != nil {
		return err
	}
	if !isToken(in.Browser) {
		in.Browser = newToken()
	}
	query := url.Values{"confirm": {confirmation(in.Browser, in)}}
	for name, value := range map[string]string{"org": in.Org, "return_to": in.ReturnTo} {
		if value != "" {
			query.Set(name, value)
		}
	}
	http.SetCookie(w, s.cookie(in.Browser))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, err = fmt.Fprintf(w, `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Sign in</title></head>
<body><h1>Sign in to %s?</h1>
<p>Another site opened this page. Continue only if you want to sign in.</p>
<p><a href="%s">Continue</a></p></body></html>
`, html.EscapeString(org), html.EscapeString(s.cfg.PublicURL+"/auth/login?"+query.Encode()))
	return err
}
