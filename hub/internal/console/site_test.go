package console_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
)

func (s *server) get(path string, header http.Header) (*http.Response, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, nil)
	require.NoError(s.t, err)
	req.Header = header.Clone()
	if header == nil {
		req.Header = http.Header{}
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(s.t, err)
	defer res.Body.Close()
	var body bytes.Buffer
	_, err = body.ReadFrom(res.Body)
	require.NoError(s.t, err)
	return res, body.String()
}

// Every page is one document, whose files are at addresses with their version, and whose policy
// permits no other.
func TestPagesLoadOnlyOwnFiles(t *testing.T) {
	s := serve(t)
	for _, path := range []string{"/", "/console", "/console/login", "/console/agents/a", "/console/agents/a/logs"} {
		res, body := s.get(path, http.Header{"Accept": {"text/html"}})
		require.Equal(t, http.StatusOK, res.StatusCode, path)
		require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
		require.Equal(t, "no-referrer", res.Header.Get("Referrer-Policy"))
		require.Equal(t, "script-src "+strings.TrimPrefix(s.url, "http://")+"/console/assets/; default-src 'none'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; "+
			"frame-ancestors 'none'; base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'", res.Header.Get("Content-Security-Policy"))
		root, err := html.Parse(strings.NewReader(body))
		require.NoError(t, err)
		for n := range root.Descendants() {
			if n.Type == html.ElementNode && n.Data == "script" {
				require.Nil(t, n.FirstChild, "the policy permits no inline script")
			}
			for _, a := range n.Attr {
				if a.Key == "src" || a.Key == "href" {
					require.Regexp(t, `^(data:,|/console/assets/[0-9a-f]{16}/[a-z]+/[a-z]+\.(js|css)|/docs)$`, a.Val)
				}
			}
		}
		res, _ = s.get(path, http.Header{"Accept": {"application/json"}})
		require.Equal(t, http.StatusNotFound, res.StatusCode, "a client of the API gets no page")
	}
}

func TestFilesAreCompressedAndStored(t *testing.T) {
	s := serve(t)
	_, page := s.get("/", nil)
	file := regexp.MustCompile(`/console/assets/[^"]+/app/main\.js`).FindString(page)
	plain, body := s.get(file, http.Header{"Accept-Encoding": {"br, deflate"}})
	require.Equal(t, "text/javascript; charset=utf-8", plain.Header.Get("Content-Type"))
	require.Equal(t, "public, max-age=31536000, immutable", plain.Header.Get("Cache-Control"))
	require.Equal(t, "Accept-Encoding", plain.Header.Get("Vary"))
	zipped, short := s.get(file, http.Header{"Accept-Encoding": {"br, gzip"}})
	require.Equal(t, "gzip", zipped.Header.Get("Content-Encoding"))
	z, err := gzip.NewReader(strings.NewReader(short))
	require.NoError(t, err)
	var unzipped bytes.Buffer
	_, err = unzipped.ReadFrom(z)
	require.NoError(t, err)
	require.Equal(t, body, unzipped.String())
	for _, other := range []string{strings.Replace(file, "main", "other", 1), "/console/assets/0000000000000000/app/main.js", "/console/assets/x/app/..%2fmain.js"} {
		res, _ := s.get(other, nil)
		require.Equal(t, http.StatusNotFound, res.StatusCode, other)
	}
}

// sources returns the modules by their paths, without those of others.
func sources(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	web := os.DirFS("web")
	require.NoError(t, fs.WalkDir(web, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(path, "lib/") {
			return err
		}
		content, err := fs.ReadFile(web, path)
		files[path] = string(content)
		return err
	}))
	return files
}

// texts returns the texts of a language. A text with plural forms is an object.
func texts(t *testing.T, source string) (all map[string]any) {
	t.Helper()
	_, object, _ := strings.Cut(source, "export default ")
	object = strings.TrimSuffix(strings.TrimSpace(object), ",\n};") + "}"
	require.NoError(t, json.Unmarshal([]byte(object), &all))
	return all
}

// Every text that a module names exists in both languages, with the same values, and every text is
// used.
func TestTextsAreComplete(t *testing.T) {
	files := sources(t)
	en, zh := texts(t, files["text/en.js"]), texts(t, files["text/zh.js"])
	values := func(text any) map[string]bool {
		names := map[string]bool{}
		data, err := json.Marshal(text)
		require.NoError(t, err)
		for _, name := range regexp.MustCompile(`\{(\w+)\}`).FindAllString(string(data), -1) {
			names[name] = true
		}
		return names
	}
	for key := range en {
		require.Contains(t, zh, key)
		require.Equal(t, values(en[key]), values(zh[key]), key)
	}
	require.Len(t, zh, len(en))
	used := map[string]bool{}
	var begun, ended []string // of keys that have a part that is not constant
	for path, source := range files {
		if strings.HasPrefix(path, "text/") {
			continue
		}
		for _, m := range regexp.MustCompile(`[^.\w](?:t|has)\(\s*"([\w.]+)"\s*[,)]`).FindAllStringSubmatch(source, -1) {
			require.Contains(t, en, m[1], path)
			used[m[1]] = true
		}
		for _, m := range regexp.MustCompile(`help: "([\w.]+)"|[?:] "([a-z]+\.[\w.]+)"`).FindAllStringSubmatch(source, -1) {
			require.Contains(t, en, m[1]+m[2], path)
			used[m[1]+m[2]] = true
		}
		for _, m := range regexp.MustCompile(`t\(name \+ "(\.\w+)"`).FindAllStringSubmatch(source, -1) {
			ended = append(ended, m[1])
		}
		for _, m := range regexp.MustCompile(`[^.\w](?:t|has)\("([\w.]+\.)" \+`).FindAllStringSubmatch(source, -1) {
			begun = append(begun, m[1])
		}
	}
	for key := range en {
		found := used[key]
		for _, prefix := range begun {
			found = found || strings.HasPrefix(key, prefix)
		}
		for _, suffix := range ended {
			found = found || strings.HasSuffix(key, suffix)
		}
		require.True(t, found, "no module uses the text %s", key)
	}
}

// Every error code of the hub has a text in the language of the user.
func TestErrorCodesHaveTexts(t *testing.T) {
	common, err := os.ReadFile("../../wire/error.go")
	require.NoError(t, err)
	others, err := os.ReadFile("../code/code.go")
	require.NoError(t, err)
	codes := regexp.MustCompile(`Code = "(\w+)"`).FindAllStringSubmatch(string(common)+string(others), -1)
	require.Greater(t, len(codes), 30)
	en := texts(t, sources(t)["text/en.js"])
	for _, code := range codes {
		require.Contains(t, en, "code."+code[1])
	}
}

// Every result of a probe has a text in the language of the user.
func TestProbeCodesHaveTexts(t *testing.T) {
	probe, err := os.ReadFile("../provider/probe.go")
	require.NoError(t, err)
	codes := regexp.MustCompile(`Probe\w+ += "(\w+)"`).FindAllStringSubmatch(string(probe), -1)
	require.Greater(t, len(codes), 10)
	en := texts(t, sources(t)["text/en.js"])
	for _, code := range codes {
		require.Contains(t, en, "probe."+code[1])
	}
}

// Content becomes text of nodes: no module parses a text as HTML or runs it, or draws it as style.
func TestModulesParseNoText(t *testing.T) {
	for path, source := range sources(t) {
		require.NotRegexp(t, `innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|dangerouslySet|\beval\(|new Function|srcdoc|localStorage\.setItem\("token`, source, path)
		require.NotRegexp(t, `https?://(?:[^w]|www\.[^w])`, strings.NewReplacer("http://www.w3.org/", "", "https://api.example.com", "", "https://mcp.example.com", "").Replace(source), "%s: an address of another host", path)
	}
}

// Texts are written as people of the field write them, in one voice: an explanation is a sentence,
// a name is none, and a few turns are not used. Chinese texts have Chinese punctuation, and one
// form of address.
func TestTextsHaveOneVoice(t *testing.T) {
	files := sources(t)
	explains := regexp.MustCompile(`(_help|_text|_effect|\.text)$`)
	names := regexp.MustCompile(`^(action|agent\.tab|audit\.category|condition|field|page|role|settings|state|usage)\.`)
	example := regexp.MustCompile(`(for example: |例如：)\S.*$`)
	unused := regexp.MustCompile(`\bserves\.|summaris|such as:|whose\b|\bTokens of\b|in thousandths|\bSilence of\b|\bThe name of the provider\b|\bof agents at\b|\ba word for\b|\b(labels|answers) have\b`)
	mixed := regexp.MustCompile(`\p{Han}[,.:;?!()]|[,.:;?!()]\p{Han}|你`)
	for language, stop := range map[string]string{"en": ".", "zh": "。"} {
		for key, text := range texts(t, files["text/"+language+".js"]) {
			forms, plural := text.(map[string]any)
			if !plural {
				forms = map[string]any{"": text}
			}
			for _, form := range forms {
				form := form.(string)
				sentence := strings.HasSuffix(form, stop)
				switch {
				case example.MatchString(form):
				case explains.MatchString(key) && key != "aigc.text":
					require.True(t, sentence, "%s: %s is no sentence: %s", language, key, form)
				case names.MatchString(key):
					require.False(t, sentence && key != "usage.none", "%s: %s is a sentence: %s", language, key, form)
				}
				if language == "en" {
					require.NotRegexp(t, unused, form, key)
				} else {
					require.NotRegexp(t, mixed, form, key)
				}
			}
		}
	}
}
