// Package apidocs serves an OpenAPI document, and a page on which people read it. The page has no
// script and needs no other host.
//
//	docs := apidocs.New(document)
//	mux.HandleFunc("GET /openapi.yaml", docs.ServeYAML)
//	mux.HandleFunc("GET /openapi.json", docs.ServeJSON)
//	mux.HandleFunc("GET /docs", docs.ServePage)
package apidocs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"
)

// Docs is a document in its forms.
type Docs struct {
	document   []byte
	json, page func() ([]byte, error)
}

// New returns a document, which is OpenAPI 3 in YAML. Its other forms are made once, for the first
// request.
func New(document []byte) *Docs {
	return &Docs{
		document: document,
		json:     sync.OnceValues(func() ([]byte, error) { return convert(document) }),
		page:     sync.OnceValues(func() ([]byte, error) { return render(document) }),
	}
}

func convert(document []byte) ([]byte, error) {
	var value map[string]any
	if err := yaml.Unmarshal(document, &value); err != nil {
		return nil, fmt.Errorf("read OpenAPI document: %w", err)
	}

	return json.Marshal(value)
}

func render(document []byte) ([]byte, error) {
	view, err := read(document)
	if err != nil {
		return nil, fmt.Errorf("read OpenAPI document: %w", err)
	}

	var page bytes.Buffer
	if err := layout.Execute(&page, view); err != nil {
		return nil, fmt.Errorf("render OpenAPI document: %w", err)
	}

	return page.Bytes(), nil
}

// ServeYAML responds with the document.
func (d *Docs) ServeYAML(w http.ResponseWriter, r *http.Request) error {
	return serve(w, r, "application/yaml", d.document)
}

// ServeJSON responds with the document in JSON. It returns an error, and writes nothing, if the
// document has no such form.
func (d *Docs) ServeJSON(w http.ResponseWriter, r *http.Request) error {
	document, err := d.json()
	if err != nil {
		return err
	}

	return serve(w, r, "application/json", document)
}

// ServePage responds with the page. Its link to the document is relative: both have the same parent
// path. It returns an error, and writes nothing, if the document is not OpenAPI 3.
func (d *Docs) ServePage(w http.ResponseWriter, r *http.Request) error {
	page, err := d.page()
	if err != nil {
		return err
	}

	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src '"+styleHash+"'; frame-ancestors 'none'")
	return serve(w, r, "text/html; charset=utf-8", page)
}

func serve(w http.ResponseWriter, r *http.Request, contentType string, content []byte) error {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	if r.Method != http.MethodHead {
		// A stalled client must not occupy the connection forever: it has to read 2 KiB a second. A
		// writer that is not a connection has no deadline.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(30*time.Second + time.Duration(len(content)>>11)*time.Second))
		_, _ = w.Write(content) // the client may have disconnected
	}

	return nil
}
