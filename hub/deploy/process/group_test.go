//go:build unix

package process_test

import (
	"bytes"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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

// listen takes the port of a URL until release is called.
func listen(t *testing.T, url string) (release func()) {
	t.Helper()
	var l net.Listener
	require.Eventually(t, func() bool { // the end of a deployment is seen before its last process has closed the listener
		var err error
		l, err = net.Listen("tcp", strings.TrimPrefix(url, "http://"))
		return err == nil
	}, time.Minute, 20*time.Millisecond)
	return func() { _ = l.Close() }
}
