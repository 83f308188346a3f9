package chaos_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

type object = map[string]any

// client is a caller of an installation. Each request goes to one of its hubs.
type client struct {
	urls  []string
	token string
	user  string            // its id
	keys  map[string]string // of the runtimes by their agents, for requests at /runtime
	users []*client         // of the chats
	*journal
}

// errDenied is a response that is neither a success nor a failure of the installation.
var errDenied = errors.New("denied")

// requestTime bounds a request. An answer of the upstream takes a fraction of a second.
const requestTime = 30 * time.Second

// open sends a request. The body is JSON, or bytes with their content type. The result is a
// response of success; a request whose error is not errDenied may have had an effect.
func (c *client) open(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var reader io.Reader
	contentType := "application/json"
	switch body := body.(type) {
	case nil, lastEvent:
	case upload:
		reader, contentType = strings.NewReader(string(body)), "multipart/form-data; boundary=x"
	default:
		reader = bytes.NewReader(must(json.Marshal(body)))
	}
	req, err := http.NewRequestWithContext(ctx, method, c.urls[rand.IntN(len(c.urls))]+path, reader)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", contentType)
	if id, ok := body.(lastEvent); ok && id != "" {
		req.Header.Set("Last-Event-ID", string(id))
	}
	if strings.HasPrefix(path, "/runtime/") {
		agent, _, _ := strings.Cut(strings.TrimPrefix(path, "/runtime/"), "/")
		req.Header.Set("X-Api-Key", c.keys[agent])
	} else {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode < 300 {
		return res, nil
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	err = fmt.Errorf("%s %s: %s: %.300s", method, path, res.Status, text)
	if res.StatusCode < 500 {
		err = fmt.Errorf("%w: %w", errDenied, err)
	} else if res.StatusCode == http.StatusInternalServerError {
		c.fault("%v", err)
	}
	return nil, err
}

// call sends a request and decodes the response into out, which may be nil.
func (c *client) call(ctx context.Context, method, path string, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	res, err := c.open(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	switch out := out.(type) {
	case nil:
		return nil
	case *string:
		*out = string(text)
		return nil
	}
	return json.Unmarshal(text, out)
}

// lastEvent is the id of the last event that a reader of an answer has received.
type lastEvent string

// upload is a form with a file.
type upload string

func fileUpload(name, content string) upload {
	return upload("--x\r\nContent-Disposition: form-data; name=file; filename=\"" + name + "\"\r\n\r\n" + content + "\r\n--x--\r\n")
}

// pages calls yield with each item of a list whose pages have numbers.
func pages[T any](ctx context.Context, c *client, path string, yield func(T)) error {
	for page, seen := 1, 0; ; page++ {
		var list struct {
			Items []T `json:"items"`
			Total int `json:"total"`
		}
		if err := c.call(ctx, http.MethodGet, fmt.Sprintf("%s&page_size=100&page=%d", path, page), nil, &list); err != nil {
			return err
		}
		for _, item := range list.Items {
			yield(item)
		}
		if seen += len(list.Items); len(list.Items) == 0 || seen >= list.Total {
			return nil
		}
	}
}

// journal has what callers sent, and what was acknowledged.
type journal struct {
	mu      sync.Mutex
	chats   []*chat
	asked   map[conversation]bool
	runs    []write       // at /runtime; names are the questions
	loose   map[group]int // runs that count at most once
	scenes  []write
	tools   []write
	pushes  []write
	logins  []write         // names are those of the users
	revoked []string        // refresh tokens that were exchanged for others
	faults  map[string]bool // what no client may see, at any time
	counts  map[string]int  // acknowledged and failed requests of each kind
}

// write is a change with a name of its own.
type write struct {
	name         string
	acknowledged bool
	content      string
}

func newJournal() *journal {
	return &journal{asked: map[conversation]bool{}, loose: map[group]int{}, faults: map[string]bool{}, counts: map[string]int{}}
}

func (j *journal) fault(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.faults[fmt.Sprintf(format, args...)] = true
}

// add adds a write to one of the lists, and counts it. A write that the hub denied had no effect
// and is not added.
func (j *journal) add(list *[]write, kind, name, content string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.count(kind, err)
	if !errors.Is(err, errDenied) {
		*list = append(*list, write{name: name, content: content, acknowledged: err == nil})
	}
}

// count counts a request. The caller has the lock.
func (j *journal) count(kind string, err error) {
	switch {
	case err == nil:
		kind += " acknowledged"
	case errors.Is(err, errDenied):
		kind += " denied"
	default:
		kind += " failed"
	}
	j.counts[kind]++
}
