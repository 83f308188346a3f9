package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/seed93082962/agenthost/hub/wire"
)

//go:embed web/app web/lib/*.js web/lib/LICENSE-htm web/pages web/parts web/text
var web embed.FS

// policy is the Content-Security-Policy of the pages, after the sources of scripts.
const policy = "; default-src 'none'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'"

const assetsPath = "/console/assets/"

// site is the document of all pages with its files.
type site struct {
	version string // of all files
	files   map[string]file
	page    file
}

// file is a response, plain and compressed.
type file struct {
	kind          string
	plain, zipped []byte
}

// preloaded are the modules that every page needs. Browsers request them together, not one after
// the other.
var preloaded = []string{
	"lib/preact.js", "app/api.js", "app/router.js", "app/text.js", "app/frame.js", "parts/basic.js", "parts/part.js", "parts/dialog.js",
	"parts/form.js",
}

var document = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>agenthost</title>
<link rel="icon" href="data:,">
<script src="{{.Base}}/app/theme.js"></script>
<link rel="stylesheet" href="{{.Base}}/app/style.css">
{{range .Preloaded}}<link rel="modulepreload" href="{{$.Base}}/{{.}}">
{{end}}<script type="module" src="{{.Base}}/app/main.js"></script>
</head>
<body>
<div id="root"></div>
<noscript><p>The console needs JavaScript. <a href="{{.Root}}/docs">The documentation</a> has the requests of the hub.</p></noscript>
</body>
</html>
`))

// newSite reads and compresses the files for a hub that is served at the path root, which is ""
// for /.
func newSite(root string) *site {
	s := &site{files: map[string]file{}}
	sum := sha256.New()
	must(fs.WalkDir(web, "web", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}

		content, err := web.ReadFile(name)
		if err != nil {
			return err
		}

		sum.Write([]byte(name))
		sum.Write(content)
		s.files[strings.TrimPrefix(name, "web/")] = newFile(kindOf(name), content)
		return nil
	}))
	s.version = hex.EncodeToString(sum.Sum(nil)[:8])
	var page bytes.Buffer
	must(document.Execute(&page, struct {
		Root, Base string
		Preloaded  []string
	}{root, root + assetsPath + s.version, preloaded}))
	s.page = newFile("text/html; charset=utf-8", page.Bytes())
	return s
}

// must panics if the embedded files cannot be read, which no request can cause.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func newFile(kind string, content []byte) file {
	var zipped bytes.Buffer
	z, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	must(err)
	_, err = z.Write(content)
	must(err)
	must(z.Close())
	return file{kind: kind, plain: content, zipped: zipped.Bytes()}
}

func kindOf(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	}

	return "text/plain; charset=utf-8"
}

func (s *Service) page(w http.ResponseWriter, r *http.Request) error {
	if !wantsPage(r) {
		return wire.NotFound
	}

	w.Header().Set("Content-Security-Policy", s.scripts(r.Host)+policy)
	return s.site().page.serve(w, r)
}

// namedHost matches the hosts that a policy can name: not those with an address of IPv6.
var namedHost = regexp.MustCompile(`^[a-zA-Z0-9-]+(\.[a-zA-Z0-9-]+)*(:[0-9]+)?$`)

// scripts permits the scripts of the console, and not those at other paths of the hub: an agent's
// runtime can serve one below /runtime. A browser may know the hub by another host than that of its
// public URL, which is in the request unless a proxy replaces it.
func (s *Service) scripts(host string) string {
	if !namedHost.MatchString(host) {
		return "script-src 'self'"
	}

	root := &url.URL{Path: strings.TrimRight(s.public.Path, "/") + assetsPath}
	below := strings.NewReplacer(";", "%3B", ",", "%2C").Replace(root.EscapedPath())
	sources := "script-src " + host + below
	if s.public.Host != host && namedHost.MatchString(s.public.Host) {
		sources += " " + s.public.Scheme + "://" + s.public.Host + below
	}

	return sources
}

// asset responds with a file. Its address has the version, so that browsers need not ask again.
func (s *Service) asset(w http.ResponseWriter, r *http.Request) error {
	f, ok := s.site().files[r.PathValue("folder")+"/"+r.PathValue("file")]
	if !ok || r.PathValue("version") != s.site().version {
		return wire.NotFound
	}

	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	return f.serve(w, r)
}

func (f file) serve(w http.ResponseWriter, r *http.Request) error {
	body, h := f.plain, w.Header()
	h.Set("Content-Type", f.kind)
	h.Add("Vary", "Accept-Encoding")
	if acceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		body = f.zipped
	}

	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client may have disconnected
	}

	return nil
}

// acceptsGzip reports whether the client lists gzip, as browsers do.
func acceptsGzip(r *http.Request) bool {
	for _, coding := range strings.Split(r.Header.Get("Accept-Encoding"), ",") {
		if strings.TrimSpace(coding) == "gzip" {
			return true
		}
	}

	return false
}
