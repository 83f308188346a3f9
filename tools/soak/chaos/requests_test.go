package chaos_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
)

// operation is an operation of a document.
type operation struct {
	method, path string
	parameters   openapi3.Parameters // also those of the path
	*openapi3.Operation
}

// fuzzer sends requests that are generated from a document: most values are as the document says,
// some are not.
type fuzzer struct {
	operations []operation
	known      []string // ids and names from responses, which later paths use
	client     *http.Transport
	mu         sync.Mutex
	statuses   map[int]int
	faults     map[string]string
}

// excluded are operations whose requests would leave the machine, because a probe of a provider has
// a default address, and those that end the session of the caller.
var excluded = []string{"/api/v1/admin/providers/probe", "/api/v1/admin/providers/{id}/probe", "/auth/logout", "/auth/sessions", "/auth/sessions/{id}"}

func newFuzzer(t *testing.T, document string) *fuzzer {
	doc, err := openapi3.NewLoader().LoadFromFile(filepath.Join("..", "..", "..", document))
	require.NoError(t, err)
	f := &fuzzer{statuses: map[int]int{}, faults: map[string]string{}}
	// The failures of its sign-ins do not lock the address of the users.
	f.client = &http.Transport{MaxIdleConnsPerHost: 8, DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, 1)}}).DialContext}
	t.Cleanup(f.client.CloseIdleConnections)
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if !slices.Contains(excluded, path) {
				f.operations = append(f.operations, operation{method, path, slices.Concat(item.Parameters, op.Parameters), op})
			}
		}
	}
	slices.SortFunc(f.operations, func(a, b operation) int {
		return cmp.Or(strings.Compare(a.path, b.path), strings.Compare(a.method, b.method))
	})
	return f
}

// hostile are values that no field expects. Addresses are only of loopback.
var hostile = []any{
	nil, "", " ", "\x00", "a\u0000b", "..", "../../etc/passwd", "/", "%2e%2e%2f", "ÿ", "\U0001f4a5", "\u202e", "'; --", "<script>", "${x}", "*", "-1", "0",
	strings.Repeat("x", 5000), strings.Repeat("é", 300), -1, 0, 1, 1 << 53, 9.3e18, -9.3e18, 1e300, 0.5, true, []any{}, []any{[]any{[]any{}}}, object{}, object{"": nil},
	"9223372036854775808", "18446744073709551616", "2026-02-30T00:00:00Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:60Z", "http://127.0.0.1:1/x", "http://[::1", "file:///etc/passwd",
}

// value returns a value of a schema. An address is always of loopback.
func (f *fuzzer) value(r *rand.Rand, ref *openapi3.SchemaRef, depth int) any {
	if r.IntN(12) == 0 || ref == nil || ref.Value == nil || depth > 6 {
		return hostile[r.IntN(len(hostile))]
	}
	s := ref.Value
	if any := slices.Concat(s.OneOf, s.AnyOf); len(any) > 0 {
		return f.value(r, any[r.IntN(len(any))], depth+1)
	}
	if len(s.AllOf) > 0 {
		all := object{}
		for _, part := range s.AllOf {
			if one, ok := f.value(r, part, depth+1).(object); ok {
				maps.Copy(all, one)
			}
		}
		return all
	}
	if len(s.Enum) > 0 {
		return s.Enum[r.IntN(len(s.Enum))]
	}
	switch {
	case s.Type == nil:
		return hostile[r.IntN(len(hostile))]
	case s.Type.Includes("object"):
		return f.object(r, s, depth)
	case s.Type.Includes("array"):
		list := []any{}
		for range r.IntN(4) {
			list = append(list, f.value(r, s.Items, depth+1))
		}
		return list
	case s.Type.Includes("integer"), s.Type.Includes("number"):
		return []any{1, 0, 2, 7, 100, r.IntN(1 << 30), -1}[r.IntN(7)]
	case s.Type.Includes("boolean"):
		return r.IntN(2) == 0
	}
	switch s.Format {
	case "date-time":
		return time.Unix(int64(r.IntN(1<<31)), 0).UTC().Format(time.RFC3339)
	case "uri":
		return "http://127.0.0.1:1/" + strconv.Itoa(r.IntN(9))
	}
	return f.text(r)
}

func (f *fuzzer) object(r *rand.Rand, s *openapi3.Schema, depth int) object {
	out := object{}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if slices.Contains(s.Required, name) && r.IntN(30) > 0 || r.IntN(2) == 0 {
			out[name] = f.value(r, s.Properties[name], depth+1)
		}
	}
	if extra := s.AdditionalProperties.Schema; extra != nil {
		for range r.IntN(3) {
			out[f.text(r)] = f.value(r, extra, depth+1)
		}
	}
	if r.IntN(20) == 0 {
		out[f.text(r)] = hostile[r.IntN(len(hostile))]
	}
	return out
}

// text returns a name that exists, or a new one.
func (f *fuzzer) text(r *rand.Rand) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.known) > 0 && r.IntN(3) > 0 {
		return f.known[r.IntN(len(f.known))]
	}
	return fmt.Sprintf("n%x", r.IntN(1<<16))
}

// request returns a request of an operation.
func (f *fuzzer) request(ctx context.Context, r *rand.Rand, base string, op operation) (*http.Request, error) {
	path, query := op.path, url.Values{}
	header := http.Header{}
	for _, parameter := range op.parameters {
		p := parameter.Value
		text := fmt.Sprint(f.value(r, p.Schema, 0))
		switch p.In {
		case "path":
			if r.IntN(8) > 0 {
				text = f.text(r)
			}
			path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(text))
		case "query":
			if p.Required || r.IntN(2) == 0 {
				query.Set(p.Name, text)
			}
		case "header":
			if r.IntN(3) == 0 {
				header.Set(p.Name, strings.Map(func(c rune) rune {
					if c < ' ' {
						return -1
					}
					return c
				}, text))
			}
		}
	}
	var body io.Reader
	if op.RequestBody != nil {
		media := slices.Sorted(maps.Keys(op.RequestBody.Value.Content))
		kind := media[r.IntN(len(media))]
		schema := op.RequestBody.Value.Content[kind].Schema
		text, err := json.Marshal(f.value(r, schema, 0))
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(kind, "multipart/") {
			kind += "; boundary=x"
			names := []string{"a.ts", "SKILL.md", "s.zip", "", "../x.js"}
			text = []byte(fileUpload(names[r.IntN(len(names))], string(text)))
		}
		if r.IntN(20) == 0 {
			text = text[:r.IntN(len(text)+1)]
		}
		header.Set("Content-Type", kind)
		body = bytes.NewReader(text)
	}
	address := base + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, op.method, address, body)
	if err == nil {
		req.Header = header
	}
	return req, err
}

// send sends a request, and records a response that no request may have.
func (f *fuzzer) send(ctx context.Context, r *rand.Rand, base string, s *sessions) error {
	op := f.operations[r.IntN(len(f.operations))]
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	req, err := f.request(ctx, r, base, op)
	if err != nil {
		return nil // a path that is no URL
	}
	role := s.authorize(r, req)
	res, err := f.client.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("%s %s: %w", op.method, op.path, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("%s %s: %w", op.method, op.path, err)
	}
	if res.StatusCode == http.StatusUnauthorized && r.IntN(10) == 0 {
		s.replace(role)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.statuses[res.StatusCode]++
	name := fmt.Sprint(op.method, " ", op.path, " ", res.StatusCode)
	switch {
	case res.StatusCode == http.StatusInternalServerError:
		f.faults[name] = fmt.Sprintf("%s: %.300s", req.URL, text)
	case op.Responses.Status(res.StatusCode) == nil && op.Responses.Default() == nil && !bytes.Contains(text, []byte("The path does not exist")):
		f.faults[name] = fmt.Sprintf("the status is not documented: %s: %.300s", req.URL, text)
	}
	var found struct {
		ID, Name, Username string
		Items              []struct{ ID, Name string }
	}
	if json.Unmarshal(text, &found) == nil {
		f.learn(r, found.ID, found.Name)
		for _, item := range found.Items {
			f.learn(r, item.ID, item.Name)
		}
	}
	return nil
}

// learn adds ids and names. The caller has the lock.
func (f *fuzzer) learn(r *rand.Rand, texts ...string) {
	for _, text := range texts {
		switch {
		case text == "" || len(text) > 100 || slices.Contains(f.known, text):
		case len(f.known) < 300:
			f.known = append(f.known, text)
		default:
			f.known[r.IntN(len(f.known))] = text
		}
	}
}

// No request has the status 500, or one that the document does not have.
func TestRandomRequests(t *testing.T) {
	count, err := strconv.Atoi(cmp.Or(os.Getenv("REQUESTS"), "100000"))
	require.NoError(t, err)
	seed := uint64(time.Now().UnixNano())
	fmt.Println("seed:", seed)
	in := newInstallation(t, 1, false, "DEPLOYER=none")
	f := newFuzzer(t, filepath.Join("hub", "openapi.yaml"))
	s := newSessions(t, in)
	begin := time.Now()
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(worker)))
			for range count / 8 {
				if err := f.send(t.Context(), r, in.urls[0], s); err != nil {
					f.mu.Lock()
					f.faults[err.Error()] = ""
					f.mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	fmt.Println(count, "requests in", time.Since(begin).Round(time.Second), "with statuses", f.statuses)
	for _, name := range slices.Sorted(maps.Keys(f.faults)) {
		t.Error(name, f.faults[name])
	}
	if t.Failed() {
		t.Log(in.logs())
	}
}

// sessions are users with roles. A user whose session has ended is replaced.
type sessions struct {
	in *installation
	t  *testing.T
	mu sync.Mutex

	admin  *client
	tokens []string
	made   int
}

var roles = []string{"admin", "maintainer", "member"}

func newSessions(t *testing.T, in *installation) *sessions {
	s := &sessions{in: in, t: t, admin: &client{urls: in.urls, journal: newJournal()}, tokens: make([]string, len(roles))}
	var pair struct {
		Access string `json:"access_token"`
	}
	require.NoError(t, s.admin.call(t.Context(), http.MethodPost, "/auth/setup", object{"username": "root", "password": password, "setup_token": setupToken}, &pair))
	s.admin.token = pair.Access
	return s
}

// authorize sets the credential of a random user, or none, and returns the index of its role.
func (s *sessions) authorize(r *rand.Rand, req *http.Request) (role int) {
	role = r.IntN(len(roles) + 1)
	if role == len(roles) {
		return role
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens[role] == "" {
		s.tokens[role] = s.create(roles[role])
	}
	req.Header.Set("Authorization", "Bearer "+s.tokens[role])
	return role
}

// replace discards a token that was rejected.
func (s *sessions) replace(role int) {
	if role < len(roles) {
		s.mu.Lock()
		s.tokens[role] = ""
		s.mu.Unlock()
	}
}

// create creates a user and returns the access token. The caller has the lock.
func (s *sessions) create(role string) string {
	s.made++
	name := fmt.Sprint("user", s.made)
	var pair struct {
		Access string `json:"access_token"`
	}
	const first = "a password to change"
	ctx := s.t.Context()
	if s.admin.call(ctx, http.MethodPost, "/api/v1/admin/users", object{"username": name, "password": first, "role": role}, nil) != nil ||
		s.admin.call(ctx, http.MethodPost, "/auth/login", object{"username": name, "password": first}, &pair) != nil {
		return ""
	}
	c := &client{urls: s.in.urls, token: pair.Access, journal: newJournal()}
	_ = c.call(ctx, http.MethodPost, "/auth/change-password", object{"old_password": first, "new_password": password}, nil)
	return pair.Access
}
