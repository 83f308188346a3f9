package api

import (
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/leaf/paging"
)

// maxPage is the largest number of a page, so that its offset does not overflow. No list is as
// long.
const maxPage = 1 << 40

// Page is a page of a list. The first page has the number 1.
type Page struct {
	Number, Size int
	After        int    // cursor: the number of items before the page, in place of Number; 0 without one
	Query        string // q: the text that a listed item contains, in any letter case; "" for all items
}

// Offset returns the number of items before the page.
func (p Page) Offset() int {
	if p.After > 0 {
		return p.After
	}

	return (p.Number - 1) * p.Size
}

// maxQuery is the number of characters of q.
const maxQuery = 200

// Paging parses page, page_size, cursor and q of the query. A cursor, the next of a former page, is
// used in place of page. A list that cannot be searched ignores q. If a parameter is missing or
// empty, it is 1 or 20. A size above 100 is 100. The error is 400 invalid_request if a parameter is
// not an integer of at least 1. The [List] of the response gets the cursor of the page after this.
func Paging(r *http.Request) (Page, error) {
	page, err := pageOf(r)
	if c := callOf(r); c != nil && err == nil {
		c.page = &page
	}

	return page, err
}

func pageOf(r *http.Request) (Page, error) {
	first := Page{Number: 1, Size: paging.DefaultSize}
	if r.URL.RawQuery == "" {
		return first, nil
	}

	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return first, wire.InvalidRequest.New("The query string is malformed: escape it as in a URL.")
	}

	number, validNumber := paging.Number(query.Get("page"))
	size, validSize := paging.Size(query.Get("page_size"))
	after, validAfter := paging.Cursor(query.Get("cursor"))
	invalid := map[string]string{}
	if !validNumber {
		invalid["page"] = paging.Want
	}

	if !validSize {
		invalid["page_size"] = paging.Want
	}

	if !validAfter {
		invalid["cursor"] = paging.Want
	}

	if len(invalid) > 0 {
		return first, &wire.Error{Code: wire.InvalidRequest, Data: wire.ErrorData{Fields: invalid}, Message: "page, page_size and cursor must be integers of at least 1."}
	}

	q := query.Get("q")
	if !utf8.ValidString(q) || strings.ContainsRune(q, 0) || utf8.RuneCountInString(q) > maxQuery {
		return first, &wire.Error{Code: wire.InvalidRequest, Data: wire.ErrorData{Fields: map[string]string{"q": "must be UTF-8 of at most 200 characters"}}}
	}

	return Page{Number: int(min(number, maxPage)), Size: size, After: int(min(after, maxPage)), Query: q}, nil
}
