package admin

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"
)

// Target is the server of a route.
type Target struct {
	Scheme string
	Host   string
	Port   int
}

// URL returns the base URL of a target.
func (t Target) URL() string {
	return (&url.URL{Scheme: t.Scheme, Host: joined(t)}).String()
}

func joined(t Target) string {
	host := t.Host
	if ipv6.MatchString(host) {
		host = "[" + host + "]"
	}

	return host + ":" + strconv.Itoa(t.Port)
}

// The forms of what becomes a part of an entity. A gateway reads a path as a regular expression or
// a pattern: a path of this form has no character with a meaning there.
var (
	pathForm = regexp.MustCompile(`^(/[a-z0-9](-?[a-z0-9])*){1,2}$`)
	keyForm  = regexp.MustCompile(`^[a-z0-9](-?[a-z0-9])*$`)
	ipv6     = regexp.MustCompile(`^[0-9a-f:]*:[0-9a-f:.]*$`)
)

// maxTimeout is within the range of all gateways, whose largest value is 2^31-2 ms.
const maxTimeout = 24 * 24 * time.Hour

// Parse returns the target of a route whose values were checked.
func Parse(r deploy.Route) (Target, error) {
	u, err := url.Parse(r.Target)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return Target{}, fmt.Errorf("route %.200q: the target %.200q is not the base URL of a runtime", r.Key, r.Target)
	}

	t := Target{Scheme: u.Scheme, Host: u.Hostname()}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	t.Port = int(n)
	switch {
	case err != nil || n == 0 || !(deploy.Route{Host: t.Host}).HasHost() && !ipv6.MatchString(t.Host):
		return t, fmt.Errorf("route %.200q: the target %.200q has no valid host or port", r.Key, r.Target)
	case !keyForm.MatchString(r.Key) || !pathForm.MatchString(r.Path):
		return t, fmt.Errorf("route %.200q: the path %.200q is not one of names", r.Key, r.Path)
	case r.Host != "" && !r.HasHost():
		return t, fmt.Errorf("route %.200q: the host %.200q is not a name", r.Key, r.Host)
	case r.Timeout <= 0 || r.Timeout > maxTimeout || r.Timeout%time.Second != 0:
		return t, fmt.Errorf("route %.200q: the timeout %v is not a number of seconds up to %v", r.Key, r.Timeout, maxTimeout)
	}

	return t, nil
}
