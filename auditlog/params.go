package auditlog

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/internal/leaf/paging"
)

// ParamError reports an invalid query parameter: page, page_size, cursor, from, to, snapshotId,
// afterId, format or head, or any other with malformed escapes. [Handlers.Fail] decides the text
// that a client receives.
type ParamError struct {
	Param string // its name
	Want  string // the rule, in English: "must be an integer of at least 1"
}

func (e *ParamError) Error() string {
	return "read query parameter " + strconv.Quote(e.Param) + ": it " + e.Want
}

// params contains the query parameters of a request. Empty ones count as missing.
type params map[string]string

// readParams reads the first value of each parameter. Unlike url.ParseQuery, its error names the
// malformed parameter.
func readParams(r *http.Request) (params, error) {
	p := params{}
	for pair := range strings.SplitSeq(r.URL.RawQuery, "&") {
		name, value, _ := strings.Cut(pair, "=")
		key, err := url.QueryUnescape(name)
		if err != nil {
			return nil, &ParamError{Param: name, Want: "must be a name with valid escapes"}
		}

		if _, twice := p[key]; twice {
			continue
		}

		if p[key], err = url.QueryUnescape(value); err != nil {
			return nil, &ParamError{Param: key, Want: "must be a value with valid escapes"}
		}
	}

	return p, nil
}

// page returns the offset and the limit of the page that page or cursor, and page_size select.
func (p params) page() (uint64, int, error) {
	number, ok := paging.Number(p["page"])
	if !ok {
		return 0, 0, &ParamError{Param: "page", Want: paging.Want}
	}

	limit, ok := paging.Size(p["page_size"])
	if !ok {
		return 0, 0, &ParamError{Param: "page_size", Want: paging.Want}
	}

	after, ok := paging.Cursor(p["cursor"])
	if !ok {
		return 0, 0, &ParamError{Param: "cursor", Want: paging.Want}
	}

	if after > 0 {
		return after, limit, nil
	}

	return paging.Offset(number, limit), limit, nil
}

// id returns an id, or nil if the parameter is missing.
func (p params) id(name string) (*uint64, error) {
	text := p[name]
	if text == "" {
		return nil, nil // nil means that there is none
	}

	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || !isDigits(text) {
		return nil, &ParamError{Param: name, Want: "must be an unsigned 64-bit integer, in plain digits"}
	}

	return &n, nil
}

// head returns the zero Head if the parameter is missing.
func (p params) head() (Head, error) {
	text := p["head"]
	if text == "" {
		return Head{}, nil
	}

	h, ok := parseHead(text)
	if !ok {
		return Head{}, &ParamError{Param: "head", Want: "must be <id>:<hash> with a decimal id and 64 hexadecimal digits"}
	}

	return h, nil
}

func (p params) filter() (Filter, error) {
	f := Filter{Category: p["category"], Action: p["action"], User: p["user"]}
	var err error
	if f.From, err = p.time("from"); err != nil {
		return Filter{}, err
	}

	if finer(p["from"]) { // time.Parse rounds down, which is right only for the other bound
		f.From = f.From.Add(1)
	}

	if f.To, err = p.time("to"); err != nil {
		return Filter{}, err
	}

	return f, nil
}

// time reads an RFC 3339 time, with t and z in either case. Leap seconds are rejected, because
// time.Time has none.
func (p params) time(name string) (time.Time, error) {
	text := p[name]
	if text == "" {
		return time.Time{}, nil
	}

	text = strings.ToUpper(text)
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || !isRFC3339(text) {
		return time.Time{}, &ParamError{Param: name, Want: "must be an RFC 3339 time"}
	}

	if t.IsZero() {
		t = t.Add(1) // the zero time means no bound; this is in the same microsecond
	}

	return t, nil
}

// isRFC3339 checks the grammar where time.Parse is more lenient: it accepts a comma before the
// fraction, an hour of one digit, and zones of more than a day.
func isRFC3339(s string) bool {
	const date = "0000-00-00T00:00:00"
	if len(s) <= len(date) || !hasShape(s[:len(date)], date) {
		return false
	}

	zone := s[len(date):]
	if zone[0] == '.' {
		rest := strings.TrimLeft(zone[1:], "0123456789")
		if len(rest) == len(zone)-1 {
			return false
		}

		zone = rest
	}

	return zone == "Z" || (hasShape(zone, "+00:00") || hasShape(zone, "-00:00")) && zone[1:3] < "24" && zone[4:] < "60"
}

// finer reports whether an RFC 3339 time is more precise than nanoseconds.
func finer(s string) bool {
	_, fraction, _ := strings.Cut(s, ".")
	digits := len(fraction) - len(strings.TrimLeft(fraction, "0123456789"))
	return digits > 9 && strings.Trim(fraction[9:digits], "0") != ""
}

// hasShape reports whether s equals shape, in which 0 matches any digit.
func hasShape(s, shape string) bool {
	if len(s) != len(shape) {
		return false
	}

	for i := range len(s) {
		if digit := s[i] >= '0' && s[i] <= '9'; shape[i] == '0' && !digit || shape[i] != '0' && s[i] != shape[i] {
			return false
		}
	}

	return true
}

func isDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }
