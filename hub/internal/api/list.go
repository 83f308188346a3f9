package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/seed93082962/agenthost/internal/httpapi"
)

// maxPageBytes bounds the JSON of the items of a page. A page has at least one item, also a larger
// one.
const maxPageBytes = 4 << 20

// List is the response of a list. Total is the number of items on all pages. The items are encoded
// one by one, and as an array also if they are nil. A page ends at 4 MiB.
type List[T any] struct {
	Items []T `json:"items"`
	Total int `json:"total"`

	// Next is the cursor of the next page, or "" on the last one. It is set for a request whose
	// handler called [Paging].
	Next string `json:"next,omitempty"`
}

// lister is a pointer to a List, or to a struct that embeds one first.
type lister interface {
	write(to *httpapi.Document, page *Page, whole any) error
}

// write writes whole, which the list is or is embedded in. Without a page, all items are written.
func (l *List[T]) write(to *httpapi.Document, page *Page, whole any) error {
	const begin = `{"items":[`
	items, most := l.Items, 0
	if page != nil {
		most = maxPageBytes
	}

	_, _ = to.Write([]byte(begin)) // which is kept
	sent, err := writeItems(to, items, most)
	if err != nil || to.Lost() {
		return err
	}

	l.Items = []T{}
	if page != nil && sent > 0 && page.Offset()+sent < l.Total {
		l.Next = strconv.Itoa(page.Offset() + sent)
	}

	rest, err := httpapi.Marshal(whole)
	if err != nil {
		return err
	}

	if _, err := to.Write(rest[len(begin):]); err != nil {
		return err
	}

	return to.Close()
}

// writeItems writes the items, with commas between them, one by one. It stops before the item with
// which they have more than most bytes, unless it is the first one or most is 0. It returns their
// number.
func writeItems[T any](to *httpapi.Document, items []T, most int) (int, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	size := 0
	var sent int
	for i := range items {
		text.Reset()
		if i > 0 {
			text.WriteByte(',')
		}

		if err := encoder.Encode(&items[i]); err != nil {
			return sent, fmt.Errorf("encode response: %w", err)
		}

		text.Truncate(text.Len() - 1) // the line break
		if size += text.Len(); most > 0 && size > most && sent > 0 {
			break
		}

		if _, err := to.Write(text.Bytes()); err != nil || to.Lost() {
			return sent, err
		}

		sent++
	}

	return sent, nil
}

// EncodeItems responds with the JSON begin, the items, and end. The items are encoded one by one,
// and nothing is for HEAD.
func EncodeItems[T any](w http.ResponseWriter, begin string, items []T, end string) error {
	to := httpapi.NewDocument(w, http.StatusOK)
	if to.Head() {
		return to.Close()
	}

	_, _ = to.Write([]byte(begin)) // which is kept
	if _, err := writeItems(to, items, 0); err != nil || to.Lost() {
		return err
	}

	if _, err := to.Write([]byte(end)); err != nil {
		return err
	}

	return to.Close()
}
