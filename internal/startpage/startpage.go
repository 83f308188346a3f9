// Package startpage serves the page at the root of a server: its state, and links. The page has no
// script and needs no other host.
//
//	page := startpage.Page{Server: "agenthost runtime", Rows: rows, Links: links}
//	return startpage.Serve(w, r, page)
package startpage

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
)

// Page is the content of the page.
type Page struct {
	Server string // the heading
	Rows   []Row
	Links  []Link
}

// Row is a part of the state. Class is "ok", "bad", or "" for a fact.
type Row struct{ Name, Value, Class string }

// Link is a link with its description. Href is relative: the server may have a path of its own
// behind a proxy.
type Link struct{ Href, Text, Description string }

// Style is the style sheet of the page, for other pages with the same look.
//
//go:embed style.css
var Style string

var layout = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Server}}</title>
<style>{{.Style}}</style>
</head>
<body>
<main>
<h1>{{.Server}}</h1>
<dl>
{{range .Rows}}<dt>{{.Name}}</dt><dd{{with .Class}} class="{{.}}"{{end}}>{{.Value}}</dd>
{{end}}</dl>
<h2>Links</h2>
<ul>
{{range .Links}}<li><a href="{{.Href}}">{{.Text}}</a>{{with .Description}}: {{.}}{{end}}</li>
{{end}}</ul>
</main>
</body>
</html>
`))

// Hash returns the source expression of an inline element for a Content-Security-Policy.
func Hash(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Wanted reports whether a request is for the page, and not for JSON: there is none at the root.
func Wanted(r *http.Request) bool {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	return strings.Contains(accept, "text/html") || !strings.Contains(accept, "json")
}

// Serve responds with the page.
func Serve(w http.ResponseWriter, r *http.Request, page Page) error {
	var body bytes.Buffer
	view := struct {
		Page
		Style template.CSS
	}{page, template.CSS(Style)} //nolint:gosec // it is part of the program
	if err := layout.Execute(&body, view); err != nil {
		return fmt.Errorf("render start page: %w", err)
	}

	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src "+Hash(Style)+"; frame-ancestors 'none'")
	if r.Method != http.MethodHead {
		_, _ = w.Write(body.Bytes()) // the client may have disconnected
	}

	return nil
}
