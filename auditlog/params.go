package auditlog

import (
	"math"
	"math/bits"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	defaultPageSize = 20
	maxPageSize     = 100
)

// ParamError is a query parameter that breaks its rule: page, page_size, from, to, snapshotId or format, or any other
// whose escapes are malformed. What a client reads is up to [Handlers.Fail].
type ParamError struct {
	Param string // its name
	Want  string // the rule, in English: "must be an integer of at least 1"
}

func (e *ParamError) Error() string {
	return "read query parameter " + strconv.Quote(e.Param) + ": it " + e.Want
}

// params are the query parameters of a request, of which those that are empty count as missing.
type params map[string]string

// readParams takes the first value of each parameter. Unlike url.ParseQuery it names the parameter that is malformed.
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

// page reads page and page_size, and gives the offset and the limit that they mean.
func (p params) page() (offset uint64, limit int, err error) {
	page, err := p.positive("page", 1)
	if err != nil {
		return 0, 0, err
	}
	size, err := p.positive("page_size", defaultPageSize)
	if err != nil {
		return 0, 0, err
	}
	size = min(size, maxPageSize)
	over, offset := bits.Mul64(page-1, size)
	if over != 0 {
		offset = math.MaxUint64 // beyond any log
	}
	return offset, int(size), nil
}

// positive reads an integer of at least 1, however large: what does not fit is as good as the largest that does.
func (p params) positive(name string, missing uint64) (uint64, error) {
	text := p[name]
	if text == "" {
		return missing, nil
	}
	n, err := strconv.ParseUint(text, 10, 64) // gives the largest where it is out of range
	if !isDigits(text) || err != nil && n != math.MaxUint64 || n == 0 {
		return 0, &ParamError{Param: name, Want: "must be an integer of at least 1, in plain digits"}
	}
	return n, nil
}

func (p params) snapshot() (*uint64, error) {
	text := p["snapshotId"]
	if text == "" {
		return nil, nil //nolint:nilnil // nil is the snapshot of who has none
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || !isDigits(text) {
		return nil, &ParamError{Param: "snapshotId", Want: "must be an unsigned 64-bit integer, in plain digits"}
	}
	return &n, nil
}

func (p params) filter() (f Filter, err error) {
	f = Filter{Category: p["category"], Action: p["action"], User: p["user"]}
	if f.From, err = p.time("from"); err != nil {
		return Filter{}, err
	}
	if finer(p["from"]) { // what lies between two nanoseconds was cut off, which is right for the other bound
		f.From = f.From.Add(1)
	}
	if f.To, err = p.time("to"); err != nil {
		return Filter{}, err
	}
	return f, nil
}

// time reads an RFC 3339 time, in which t and z may be small letters. Leap seconds are refused, as time.Time has none.
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
		t = t.Add(1) // the zero time means that there is no bound; this lies within the same microsecond
	}
	return t, nil
}

// isRFC3339 holds a time to the grammar where time.Parse, which checks the ranges, does not: it takes a comma for the
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

// finer tells whether an RFC 3339 time has more of a second than its nanoseconds.
func finer(s string) bool {
	_, fraction, _ := strings.Cut(s, ".")
	digits := len(fraction) - len(strings.TrimLeft(fraction, "0123456789"))
	return digits > 9 && strings.Trim(fraction[9:digits], "0") != ""
}

// hasShape tells whether s is shape with any digits for its zeros.
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
