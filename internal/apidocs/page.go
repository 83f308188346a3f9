package apidocs

import (
	"crypto/sha256"
	"encoding/base64"
	"html/template"
)

// style is the only resource of the page. Its hash is in the Content-Security-Policy.
const style = `
:root { color-scheme: light dark; --ink: #1c1f23; --page: #fff; --accent: #0b5cad }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8ea; --page: #15181b; --accent: #7db8f5 } }
a { color: var(--accent) }
body { color: var(--ink); background: var(--page); overflow-wrap: anywhere; font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #8886; }
code, pre, summary b, td:first-child { font-family: ui-monospace, monospace; font-size: .9em; }
pre { background: #8882; padding: .6rem .8rem; border-radius: 6px; white-space: pre-wrap; }
details { margin: .3rem 0; padding: .3rem .6rem; border-radius: 6px; border: 1px solid #8884; }
details > div { scroll-margin-top: 3rem; }
summary { cursor: pointer; }
summary b { display: inline-block; min-width: 4.5rem; overflow-wrap: normal; }
summary i { font-style: normal; opacity: .7; }
table { border-collapse: collapse; }
td { padding: .2rem .8rem .2rem 0; vertical-align: top; border-top: 1px solid #8884; }
td p { margin: 0; }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1rem; }
@media (max-width: 40rem) {
  tr { display: block; border-top: 1px solid #8884; padding: .3rem 0; }
  td { display: block; border: 0; padding: 0; }
}
`

// A link to an id inside of a closed details element opens the element (HTML, section 4.11.1).
// Therefore the ids are not those of the details elements.

// styleHash is the source expression of the style (CSP Level 3, section 2.3.1).
var styleHash = func() string {
	sum := sha256.Sum256([]byte(style))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}()

var layout = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{{.Title}} {{.Version}}</title><style>` + style + `</style></head>
<body>
<h1>{{.Title}} {{.Version}}</h1>
<p>The source of this page is the OpenAPI document <a href="openapi.yaml">openapi.yaml</a>.</p>
<nav>{{range .Groups}}{{if .Operations}}<a href="#tag-{{.Name}}">{{.Name}}</a>{{end}}{{end}}<a href="#schemas">schemas</a></nav>
{{if .Steps}}<h2 id="first-steps">first steps</h2>
<ol>{{range .Steps}}<li><a href="#op-{{.Operation}}">{{.Operation}}</a>: {{.Text}}</li>{{end}}</ol>
{{end}}<details><summary>General rules</summary>{{.Description}}</details>
{{range .Groups}}{{if .Operations}}
<h2 id="tag-{{.Name}}">{{.Name}}</h2>{{.Description}}
{{range .Operations}}<details><summary><b>{{.Method}}</b> <code>{{.Path}}</code> <i>{{.Summary}}</i></summary><div id="op-{{.ID}}">
{{.Description}}{{if .Roles}}<p>Roles: {{range $i, $r := .Roles}}{{if $i}}, {{end}}{{$r}}{{end}}</p>{{end}}
{{if .Parameters}}<h4>Parameters</h4><table>{{range .Parameters}}<tr><td>{{.Name}}</td><td>{{.In}}{{if .Required}}, required{{end}}</td><td>{{.Description}}</td><td><code>{{.Schema}}</code></td></tr>{{end}}</table>{{end}}
{{if .Body}}<h4>Body</h4><pre>{{.Body}}</pre>{{end}}
<h4>Responses</h4>{{range .Responses}}<details><summary><b>{{.Status}}</b></summary>{{.Description}}{{if .Content}}<pre>{{.Content}}</pre>{{end}}</details>{{end}}
<h4>Example</h4><pre>{{.Example}}</pre>
</div></details>
{{end}}{{end}}{{end}}
<h2 id="schemas">schemas</h2>
{{range .Schemas}}<details><summary><code>{{.Name}}</code></summary><div id="schema-{{.Name}}"><pre>{{.Source}}</pre></div></details>
{{end}}</body>
</html>
`))
