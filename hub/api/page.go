package api

import (
	"net/http"
	"net/url"
	"strings"
)

const (
	defaultPageSize = 20
	maxPageSize     = 100
	maxPage         = 1 << 40 // no list is so long; the offset stays far from overflow
)

// Page is a page of a list. The first has number 1.
type Page struct{ Number, Size int }

// Offset is how many items come before the page.
func (p Page) Offset() int { return (p.Number - 1) * p.Size }

// Paging reads page and page_size of the query. Omitted or empty they are 1 and 20; a size above 100 is cut to 100. What
// is not an integer from 1 on is 400 invalid_request.
func Paging(r *http.Request) (Page, error) {
	p := Page{1, defaultPageSize}
	if r.URL.RawQuery == "" {
		return p, nil
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return p, InvalidRequest.New("The query string is malformed: escape it as a URL wants it.")
	}
	faults := map[string]string{}
	number := func(name string, unset, most int) int {
		s := query.Get(name)
		if s == "" {
			return unset
		}
		n, ok := 0, true
		for _, c := range []byte(s) {
			ok = ok && '0' <= c && c <= '9'
			n = min(n*10+int(c-'0'), most)
		}
		if !ok || strings.Trim(s, "0") == "" {
			faults[name] = "must be an integer from 1 on"
		}
		return n
	}
	p.Number = number("page", 1, maxPage)
	p.Size = number("page_size", defaultPageSize, maxPageSize)
	if len(faults) > 0 {
		return Page{1, defaultPageSize}, &Error{Code: InvalidRequest, Data: fieldFaults{faults},
			Message: "page and page_size must be integers from 1 on."}
	}
	return p, nil
}
