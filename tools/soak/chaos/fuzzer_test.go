package chaos_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
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
	"sync/atomic"
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
	names      *names
	deployed   []string // agents whose deployments are changed
	client     *http.Transport
	exported   atomic.Pointer[string] // an agent

	// authorize sets the credential of a random caller, or none, and returns a number of the
	// caller.
	authorize func(r *rand.Rand, req *http.Request) (caller int)
	rejected  func(caller int) // is called after some responses with 401

	mu       sync.Mutex             // guards the fields below
	statuses map[string]map[int]int // by operation
	faults   map[string]string
}

// excluded are operations whose requests would leave the machine, because a probe of a provider has
// a default address, and those that end the session of the caller.
var excluded = []string{"/api/v1/admin/providers/probe", "/api/v1/admin/providers/{id}/probe", "/auth/logout", "/auth/sessions", "/auth/sessions/{id}"}

// newFuzzer returns a fuzzer for the document of a server, hub or runtime.
func newFuzzer(t *testing.T, server string) *fuzzer {
	doc, err := openapi3.NewLoader().LoadFromFile(filepath.Join("..", "..", "..", server, "openapi.yaml"))
	require.NoError(t, err)
	f := &fuzzer{names: newNames(), statuses: map[string]map[int]int{}, faults: map[string]string{}}
	// The failures of its sign-ins do not lock the address of the users.
	f.client = &http.Transport{MaxIdleConnsPerHost: 8, DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, 1)}}).DialContext}
	t.Cleanup(f.client.CloseIdleConnections)
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if !slices.Contains(excluded, path) {
				f.operations = append(f.operations, operation{method, path, slices.Concat(item.Parameters, op.Parameters), op})
				f.statuses[method+" "+path] = map[int]int{}
			}
		}
	}
	slices.SortFunc(f.operations, func(a, b operation) int {
		return cmp.Or(strings.Compare(a.path, b.path), strings.Compare(a.method, b.method))
	})
	return f
}

// request returns a request of an operation.
func (f *fuzzer) request(ctx context.Context, r *rand.Rand, base string, op operation) (*http.Request, error) {
	g := &generator{Rand: r, names: f.names, wild: r.IntN(2) == 0, kind: kindOfPath(op.path)}
	path, query, header := op.path, url.Values{}, http.Header{}
	for _, parameter := range op.parameters {
		p := parameter.Value
		text := fmt.Sprint(g.value(p.Schema, p.Name, 0))
		switch p.In {
		case "path":
			before, _, _ := strings.Cut(op.path, "/{"+p.Name+"}")
			switch {
			case len(p.Schema.Value.Enum) > 0 || g.wild && r.IntN(4) == 0:
			case strings.Contains(op.path, "/deploy"): // the runtimes of all agents would be too many
				text = f.deployed[r.IntN(len(f.deployed))]
			default:
				text = f.names.one(r, []string{kindOfPath(before), cmp.Or(kindOf(p.Name), kindOfPath(before))}[r.IntN(2)])
			}
			if op.method == http.MethodDelete && strings.HasSuffix(op.path, "}") && f.names.kept(text) {
				text += "0"
			}
			path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(text))
		case "query":
			if p.Required || r.IntN(4) == 0 {
				query.Set(p.Name, text)
			}
		case "header":
			if p.Required || r.IntN(8) == 0 {
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
		text, err := json.Marshal(g.value(schema, "", 0))
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(kind, "multipart/") {
			kind += "; boundary=x"
			text = []byte(g.file(schema))
		}
		if exported := f.exported.Load(); exported != nil && strings.HasSuffix(kind, "yaml") && r.IntN(2) == 0 {
			text = []byte(*exported)
		}
		if g.wild && r.IntN(10) == 0 {
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
func (f *fuzzer) send(ctx context.Context, r *rand.Rand, base string) error {
	op := f.operations[r.IntN(len(f.operations))]
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	req, err := f.request(ctx, r, base, op)
	if err != nil {
		return nil // a path that is no URL
	}
	caller := f.authorize(r, req)
	res, err := f.client.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("%s %s: %w", op.method, op.path, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if errors.Is(err, io.ErrUnexpectedEOF) && strings.HasSuffix(op.path, "/export") {
		fmt.Println("the export", req.URL.Path, "was cut, as if the access of its user had ended")
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", op.method, op.path, err)
	}
	if res.StatusCode == http.StatusUnauthorized && r.IntN(10) == 0 {
		f.rejected(caller)
	}
	f.learn(r, op, res, text)
	f.mu.Lock()
	defer f.mu.Unlock()
	name := op.method + " " + op.path
	f.statuses[name][res.StatusCode]++
	switch {
	case res.StatusCode == http.StatusInternalServerError:
		f.faults[name+" 500"] = fmt.Sprintf("%s: %.300s", req.URL, text)
	case op.Responses.Status(res.StatusCode) == nil && op.Responses.Default() == nil && !unknownPath(res, string(text)):
		f.faults[fmt.Sprint(name, " ", res.StatusCode)] = fmt.Sprintf("the status is not documented: %s: %.300s", req.URL, text)
	}
	return nil
}

// learn reads the names and ids of a response.
func (f *fuzzer) learn(r *rand.Rand, op operation, res *http.Response, text []byte) {
	f.names.learn(r, "run", res.Header.Get("X-Run-ID"))
	if res.StatusCode == http.StatusOK && strings.HasSuffix(op.path, "/agents/{name}/export") {
		exported := string(text)
		f.exported.Store(&exported)
	}
	var found object
	if res.StatusCode >= 300 || json.Unmarshal(text, &found) != nil {
		return
	}
	items, _ := found["items"].([]any)
	for _, one := range append(items, found) {
		one, _ := one.(object)
		for _, field := range slices.Sorted(maps.Keys(one)) {
			value, _ := one[field].(string)
			f.names.learn(r, cmp.Or(kindOf(field), kindOfPath(op.path)), value)
		}
	}
}

// unknownPath reports whether a response is that to a path without an operation: a parameter may
// have added a separator.
func unknownPath(res *http.Response, text string) bool {
	return res.StatusCode == http.StatusNotFound &&
		(res.Request.Method == http.MethodHead || strings.Contains(text, "The path does not exist") || strings.Contains(text, `{"error":"Not found"}`))
}

// sendAll sends as many requests as REQUESTS says (100000), and requires that a process has no more
// memory, files and goroutines after them than after the first tenth.
func (f *fuzzer) sendAll(t *testing.T, base string, now func() (usage, error)) {
	count, err := strconv.Atoi(cmp.Or(os.Getenv("REQUESTS"), "100000"))
	require.NoError(t, err)
	seed := uint64(time.Now().UnixNano())
	fmt.Println("seed:", seed)
	begin := time.Now()
	f.sendSome(t.Context(), base, seed, count/10)
	before, err := now()
	require.NoError(t, err)
	f.sendSome(t.Context(), base, seed+1, count-count/10)
	fmt.Println(count, "requests in", time.Since(begin).Round(time.Second), f.summary())
	for _, name := range slices.Sorted(maps.Keys(f.faults)) {
		t.Error(name, f.faults[name])
	}
	after := requireEnd(t, before, now)
	fmt.Printf("%d to %d MiB, %d to %d goroutines, %d to %d files\n", before.memory>>20, after.memory>>20, before.goroutines, after.goroutines, before.files, after.files)
	require.Less(t, after.memory, before.memory+64<<20, "bytes of memory") // that of the garbage collector varies
}

// summary returns the numbers of statuses, and the operations without a success.
func (f *fuzzer) summary() string {
	all, never := map[int]int{}, ""
	for _, name := range slices.Sorted(maps.Keys(f.statuses)) {
		succeeded := false
		for status, n := range f.statuses[name] {
			all[status] += n
			succeeded = succeeded || status < 300
		}
		if !succeeded {
			never += fmt.Sprintf("\n%s: %v", name, f.statuses[name])
		}
	}
	return fmt.Sprintf("with statuses %v. Of %d operations, these had no success:%s", all, len(f.statuses), never)
}

// sendSome sends requests of eight callers.
func (f *fuzzer) sendSome(ctx context.Context, base string, seed uint64, count int) {
	var all sync.WaitGroup
	for caller := range 8 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(caller)))
			for range count / 8 {
				if err := f.send(ctx, r, base); err != nil {
					f.mu.Lock()
					f.faults[err.Error()] = ""
					f.mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	f.client.CloseIdleConnections()
}
