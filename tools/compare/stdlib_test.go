package compare_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// requestBody is valid for both APIs.
const requestBody = `{"model":"m","max_tokens":1024,"stream":true,"messages":[{"role":"user","content":"` + prompt + `"}]}`

// post sends one request and returns the response unread.
func post(url string, read func(io.Reader) (int, error)) (caller, error) {
	c := httpClient()
	return func(ctx context.Context) (int, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(requestBody))
		if err != nil {
			return 0, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Anthropic-Version", "2023-06-01")
		req.Header.Set("X-Api-Key", "key")
		req.Header.Set("Authorization", "Bearer key")
		resp, err := c.Do(req)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return 0, fmt.Errorf("status %d", resp.StatusCode)
		}
		return read(resp.Body)
	}, nil
}

// countTexts reads bytes without decoding, the least that a call can cost. It recognizes a token by
// the text before it.
func countTexts(before string) func(io.Reader) (int, error) {
	return func(r io.Reader) (n int, err error) {
		lines := bufio.NewReader(r)
		for {
			line, err := lines.ReadSlice('\n')
			if bytes.Contains(line, []byte(before)) {
				n++
			}
			if err == io.EOF {
				return n, nil
			}
			if err != nil {
				return n, err
			}
		}
	}
}

// decodeTexts is a simple client: lines by bufio, and encoding/json into the few fields that count.
func decodeTexts[T any](text func(*T) string) func(io.Reader) (int, error) {
	return func(r io.Reader) (n int, err error) {
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
			if !ok || string(data) == "[DONE]" {
				continue
			}
			var v T
			if err := json.Unmarshal(data, &v); err != nil {
				return n, err
			}
			if text(&v) != "" {
				n++
			}
		}
		return n, lines.Err()
	}
}
