package worker_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/tool/js/worker"
)

const asWorker = "worker"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == asWorker {
		if worker.Run(os.Stdin, os.Stdout) != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// FuzzRun checks that a worker ends at malformed input.
func FuzzRun(f *testing.F) {
	frame := func(kind byte, head, body string) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(5+len(head)+len(body)))
		b = append(b, kind)
		b = binary.BigEndian.AppendUint32(b, uint32(len(head)))
		return append(append(b, head...), body...)
	}
	f.Add([]byte{})
	f.Add([]byte("garbage that has no meaning"))
	f.Add(frame('c', `{"call":1,"program":"none"}`, `{}`))
	f.Add(frame('s', `{"call":1}`, ""))
	f.Add(append(frame('f', `{"call":1,"fetch":1}`, "x"), frame('x', `{}`, "")...))
	f.Add(binary.BigEndian.AppendUint32(nil, 1<<31))
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) > 4 && bytes.ContainsAny(input[4:5], "Sbp") {
			return // limits this process, or compiles and runs what follows
		}
		_ = worker.Run(bytes.NewReader(input), io.Discard)
	})
}

func TestAWorkerEndsWithItsInput(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, worker.Run(bytes.NewReader(nil), io.Discard))
	for name, input := range map[string]string{"nothing": "", "garbage": "\x00\x00\x00\x01", "half a frame": "\x00\x00\x00\x09c"} {
		cmd := exec.Command(self, asWorker)
		cmd.Stdin = bytes.NewReader([]byte(input))
		cmd.WaitDelay = 10 * time.Second
		err := cmd.Run()
		require.Equal(t, name == "nothing", err == nil, name)
	}
}
