package main_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/runtime/tool/js"
)

// processes returns the ids of the processes of an executable whose first argument is given.
func processes(path, argument string) (pids []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range all {
		args, err := os.ReadFile(file)
		if err == nil && bytes.HasPrefix(args, []byte(path+"\x00"+argument+"\x00")) {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}

// uploadOf returns a request that uploads a tool.
func uploadOf(t *testing.T, url, token, source string) *http.Request {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", "a.ts")
	require.NoError(t, err)
	_, err = part.Write([]byte(source))
	require.NoError(t, err)
	require.NoError(t, form.Close())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/api/v1/admin/tools", &body)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", form.FormDataContentType())
	return req
}

// A hub that is attacked with files responds to each with the limit that was reached, does not
// grow, and leaves no process, neither after an upload nor when it is killed during one.
func TestHostileToolsDoNotEndTheHub(t *testing.T) {
	t.Parallel()
	path := binary(t)
	p := spawn(t, path, []string{"HUB_DATA_DIR", t.TempDir(), "PATH", os.Getenv("PATH")})
	admin := setUp(t, p.Instance)
	const good, late = "export default {name: 'good', description: 'd', call() {}}\n", "did not load in time"
	doubling := "enum E{a='xxxxxxxxxxxxxxxx'"
	for c := 'b'; c <= 'z'; c++ {
		doubling += "," + string(c) + "=" + string(c-1) + "+" + string(c-1)
	}
	const stack, memory = "limit of the stack|" + late, "limit of memory|" + late // whichever a busy machine reaches first
	for name, row := range map[string]struct{ source, limit string }{
		"a regular expression":     {"let x\n/'/;" + strings.Repeat("(", 260_000) + "'\n" + good, stack},
		"enums":                    {doubling + ",A=z+z,B=A+A,C=B+B}\n" + good, memory},
		"a loop":                   {"for (;;);", "the name must be a literal"},
		"escapes":                  {strings.Repeat(`\u{`, 5<<20/3), `a\.ts:1:`},
		"a definition without end": {"const all = []; for (;;) all.push({}); export default all", "the name must be a literal"},
	} {
		res := do(t, uploadOf(t, p.URL, admin, row.source))
		require.Equal(t, http.StatusUnprocessableEntity, res.status, "%s: %s", name, res.text)
		require.Equal(t, "artifact_invalid", res.body["code"], name)
		require.Regexp(t, row.limit, res.body["message"], name)
		require.Empty(t, processes(path, js.WorkerArg), name)
	}
	res := do(t, uploadOf(t, p.URL, admin, "for (;;) throw 1\n"+good)) // it is not executed
	require.Equal(t, http.StatusCreated, res.status, res.text)
	require.Equal(t, "good", res.body["name"])
	status, err := os.ReadFile("/proc/" + processes(path, "--addr")[0] + "/status")
	require.NoError(t, err)
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(peak)[0])
	require.NoError(t, err)
	require.Less(t, kib, 256<<10, "KiB that were resident")

	// One after another, because a worker may end before it is observed.
	uploads := make([]*http.Request, 200)
	for i := range uploads {
		uploads[i] = uploadOf(t, p.URL, admin, doubling+",A=z+z,B=A+A,C=B+B}\n"+good)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, upload := range uploads {
			res, err := http.DefaultTransport.RoundTrip(upload)
			if err != nil {
				return
			}
			_ = res.Body.Close()
		}
	}()
	require.Eventually(t, func() bool { return len(processes(path, js.WorkerArg)) == 1 }, daemontest.Patience, 20*time.Millisecond)
	kill(t, p)
	<-ended
	require.Eventually(t, func() bool { return len(processes(path, js.WorkerArg)) == 0 }, daemontest.Patience, 20*time.Millisecond)
}
