//go:build unix

package process_test

import (
	"bytes"
	"net"
	"os"
	"strconv"
	"strings"
)

// populated returns the number of living processes in a group.
func populated(group int) (n int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) > 2 && string(fields[2]) == strconv.Itoa(group) && !bytes.ContainsAny(fields[0], "ZX") {
			n++
		}
	}
	return n
}

// listen takes the port of a URL until release is called. Another process may have it already.
func listen(url string) (release func()) {
	l, err := net.Listen("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		return func() {}
	}
	return func() { _ = l.Close() }
}
