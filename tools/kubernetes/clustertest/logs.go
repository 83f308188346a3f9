package clustertest

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// serveLogs serves the log of a container, see the documentation of PodLogOptions.
func (n *Node) serveLogs(w http.ResponseWriter, r *http.Request) {
	c := n.find(r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container"))
	if c == nil {
		http.Error(w, "container is not found", http.StatusNotFound)
		return
	}
	query := r.URL.Query()
	former := 0
	if query.Get("previous") == "true" {
		former = 1
	}
	c.mu.Lock()
	path, missing := c.logFile(former), c.attempt-former < 1
	c.mu.Unlock()
	if missing {
		http.Error(w, fmt.Sprintf("container %q in pod %q is waiting to start", c.spec.Name, c.pod.name), http.StatusBadRequest)
		return
	}
	most := -1
	if text := query.Get("tailLines"); text != "" {
		most, _ = strconv.Atoi(text)
	}
	limit, _ := strconv.Atoi(query.Get("limitBytes"))
	out := &limited{w: w, rest: limit, bounded: limit > 0}
	var since time.Time
	if seconds, err := strconv.Atoi(query.Get("sinceSeconds")); err == nil {
		since = time.Now().Add(-time.Duration(seconds) * time.Second)
	}
	if at, err := time.Parse(time.RFC3339, query.Get("sinceTime")); err == nil {
		since = at
	}
	for _, line := range tail(path, most) {
		stamp, text, _ := strings.Cut(line, " ")
		if at, err := time.Parse(time.RFC3339Nano, stamp); err == nil && at.Before(since) {
			continue
		}
		if query.Get("timestamps") == "true" {
			text = line
		}
		if _, err := io.WriteString(out, text+"\n"); err != nil {
			return
		}
	}
}

// limited writes at most some bytes.
type limited struct {
	w       io.Writer
	rest    int
	bounded bool
}

func (l *limited) Write(text []byte) (int, error) {
	if !l.bounded {
		return l.w.Write(text)
	}
	n, err := l.w.Write(text[:min(len(text), l.rest)])
	l.rest -= n
	if err == nil && n < len(text) {
		err = io.ErrShortWrite
	}
	return n, err
}

func (n *Node) find(namespace, name, container string) *container {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.pods {
		if p.namespace != namespace || p.name != name {
			continue
		}
		for _, c := range p.containers {
			if c.spec.Name == container {
				return c
			}
		}
	}
	return nil
}

// tail returns the last lines of a file, or all if most is negative.
func tail(path string, most int) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	var lines []string
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			return lines
		}
		lines = append(lines, strings.TrimSuffix(line, "\n"))
		if most >= 0 && len(lines) > most {
			lines = lines[1:]
		}
	}
}
