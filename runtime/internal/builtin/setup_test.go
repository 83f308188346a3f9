package builtin_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/filesafe"
	"github.com/seed93082962/agenthost/runtime/internal/builtin"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// box is a working directory with its tools, and a directory outside that no tool may access.
type box struct {
	dir     string
	outside string
	tools   map[string]tool.Tool
}

// in is a tool input.
type in map[string]any

func setup(t testing.TB, change ...func(*builtin.Config)) box {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	b := box{dir: filepath.Join(top, "work"), outside: filepath.Join(top, "outside"), tools: map[string]tool.Tool{}}
	require.NoError(t, os.Mkdir(b.dir, 0o755))
	require.NoError(t, os.Mkdir(b.outside, 0o755))
	dir, err := filesafe.Open(b.dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dir.Close()) })
	config := builtin.Config{Dir: dir}
	for _, f := range change {
		f(&config)
	}
	for _, one := range builtin.Tools(config) {
		b.tools[one.Spec().Name] = one
	}
	return b
}

// put writes a file in the working directory.
func (b box) put(t testing.TB, name, content string) {
	t.Helper()
	path := filepath.Join(b.dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

func (b box) content(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(b.dir, name))
	require.NoError(t, err)
	return string(data)
}

func (b box) link(t testing.TB, target, name string) {
	t.Helper()
	require.NoError(t, os.Symlink(target, filepath.Join(b.dir, name)))
}

func (b box) call(ctx context.Context, t testing.TB, name string, input in) (tool.Result, error) {
	t.Helper()
	data, err := json.Marshal(input)
	require.NoError(t, err)
	require.Contains(t, b.tools, name)
	res, err := b.tools[name].Call(ctx, tool.Call{ID: "t1", Input: data})
	require.True(t, utf8.ValidString(res.Output))
	if err != nil {
		require.True(t, utf8.ValidString(err.Error()))
		require.Empty(t, res)
	}
	return res, err
}

// ok calls a tool and returns its output, which must be complete.
func (b box) ok(t testing.TB, name string, input in) string {
	t.Helper()
	res, err := b.call(t.Context(), t, name, input)
	require.NoError(t, err)
	require.False(t, res.IsError)
	require.False(t, res.Truncated, res.Output)
	return res.Output
}

// cut calls a tool and returns its output, which must be truncated.
func (b box) cut(t testing.TB, name string, input in) string {
	t.Helper()
	res, err := b.call(t.Context(), t, name, input)
	require.NoError(t, err)
	require.True(t, res.Truncated, res.Output)
	return res.Output
}

// fails calls a tool and returns its error.
func (b box) fails(t testing.TB, name string, input in) string {
	t.Helper()
	_, err := b.call(t.Context(), t, name, input)
	require.Error(t, err)
	return err.Error()
}
