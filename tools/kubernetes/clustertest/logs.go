package clustertest

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
)

// serveLogs serves the log of a container. Of PodLogOptions it has previous and tailLines.
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

	for _, line := range tail(path, most) {
		_, text, _ := strings.Cut(line, " ") // after its time
		if _, err := io.WriteString(w, text+"\n"); err != nil {
			return
		}
	}
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
