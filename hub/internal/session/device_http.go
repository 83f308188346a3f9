package session

import (
	"net/http"
	"net/url"
	"time"
)

// deviceLife is how long a browser stores device tokens.
const deviceLife = 400 * 24 * time.Hour // the most that browsers permit

// Devices returns the device tokens of the cookie of a browser, or "".
func (s *Service) Devices(r *http.Request) string {
	cookies := r.CookiesNamed(s.deviceCookie().Name)
	if len(cookies) != 1 {
		return ""
	}

	return cookies[0].Value
}

// SetDevice adds the device token of a sign-in to the cookie of the browser. It must be called
// before the header is written.
func (s *Service) SetDevice(w http.ResponseWriter, r *http.Request, in SignIn) {
	held := s.Devices(r)
	c := s.deviceCookie()
	if c.Value = s.AddDevice(held, in.DeviceToken); c.Value != held {
		http.SetCookie(w, c)
	}
}

// deviceCookie returns the cookie of device tokens without a value. An identity provider that
// redirects to the callback needs a Lax cookie. Browsers send the cookies of a host to all of its
// ports: without https, the port in the name separates the hubs of a loopback address.
func (s *Service) deviceCookie() *http.Cookie {
	c := &http.Cookie{
		Name: "__Host-hub-device", Path: "/", MaxAge: int(deviceLife.Seconds()), HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
	}
	public, err := url.Parse(s.users.PublicURL())
	if err != nil || public.Scheme != "https" {
		c.Name = "hub-device"
		c.Secure = false
		if err == nil {
			c.Name += public.Port()
		}
	}

	return c
}
