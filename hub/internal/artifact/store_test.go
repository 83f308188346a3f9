package artifact_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/blob"
	"github.com/seed93082962/agenthost/hub/blob/blobtest"
	"github.com/seed93082962/agenthost/hub/internal/artifact"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/secret"
)

const publicURL = "https://hub.example.com/base"

// open returns a store. The driver defaults to memory.
func open(t testing.TB, change ...func(*artifact.Config)) *artifact.Store {
	t.Helper()
	ring, err := secret.Parse(secret.Generate())
	require.NoError(t, err)
	cfg := artifact.Config{Driver: &blob.Memory{}, Keyring: ring, PublicURL: publicURL, TempDir: t.TempDir()}
	for _, f := range change {
		f(&cfg)
	}
	s, err := artifact.New(cfg)
	require.NoError(t, err)
	return s
}

func put(t testing.TB, s *artifact.Store, kind artifact.Purpose, name string, content []byte) artifact.Ref {
	t.Helper()
	ref, err := s.Put(t.Context(), kind, name, bytes.NewReader(content))
	require.NoError(t, err)
	return ref
}

func TestPutIsContentAddressed(t *testing.T) {
	t.Parallel()
	s, content := open(t), blobtest.Content(100_000)
	ref := put(t, s, artifact.Tools, "天气 1.ts", content)
	sum := sha256.Sum256(content)
	require.Equal(t, artifact.Ref{Kind: artifact.Tools, Hash: hex.EncodeToString(sum[:]), Name: "天气 1.ts", Size: 100_000}, ref)
	require.Equal(t, "tools/"+ref.Hash+"/天气 1.ts", ref.Key())
	require.Equal(t, ref, put(t, s, artifact.Tools, "天气 1.ts", content))
	require.Equal(t, publicURL+"/artifacts/tools/"+ref.Hash+"/%E5%A4%A9%E6%B0%94%201.ts", s.URL(ref))

	b, err := s.Open(t.Context(), ref)
	require.NoError(t, err)
	got, err := io.ReadAll(b.Content)
	require.NoError(t, err)
	require.NoError(t, b.Close())
	require.Equal(t, content, got)

	other, changed := ref, ref
	other.Name, changed.Size = "other.ts", 99_999
	exist, err := s.Exist(t.Context(), ref, other, changed, artifact.Ref{})
	require.NoError(t, err)
	require.Equal(t, []bool{true, false, false, false}, exist)
	_, err = s.Open(t.Context(), other)
	require.ErrorIs(t, err, blob.ErrNotExist)
	_, err = s.Open(t.Context(), artifact.Ref{Kind: artifact.Tools, Hash: "..", Name: "x"})
	require.ErrorIs(t, err, blob.ErrNotExist)
}

func TestAnUploadIsReadBeforeItIsStored(t *testing.T) {
	t.Parallel()
	s := open(t)
	u, err := s.NewUpload()
	require.NoError(t, err)
	_, err = io.WriteString(u, "con")
	require.NoError(t, err)
	_, err = io.Copy(u, strings.NewReader("tent"))
	require.NoError(t, err)
	require.NoError(t, iotest.TestReader(u.Content(), []byte("content")))
	require.EqualValues(t, 7, u.Size())
	ref := artifact.Ref{Kind: artifact.Skills, Hash: u.Hash(), Name: "a.zip", Size: 7}
	exist, err := s.Exist(t.Context(), ref)
	require.NoError(t, err)
	require.Equal(t, []bool{false}, exist)
	for range 2 {
		got, err := u.Commit(t.Context(), artifact.Skills, "a.zip")
		require.NoError(t, err)
		require.Equal(t, ref, got)
	}
	require.NoError(t, u.Close())
	exist, err = s.Exist(t.Context(), ref)
	require.NoError(t, err)
	require.Equal(t, []bool{true}, exist)
}

func TestAnUploadThatEndsEarlyIsNotStored(t *testing.T) {
	t.Parallel()
	driver := &blob.Memory{}
	s := open(t, func(c *artifact.Config) { c.Driver = driver })
	broken := errors.New("broken")
	for _, row := range []struct{ err, want error }{{io.ErrUnexpectedEOF, wire.InvalidRequest}, {broken, broken}} {
		_, err := s.Put(t.Context(), artifact.Tools, "a.ts", io.MultiReader(strings.NewReader("half"), iotest.ErrReader(row.err)))
		require.ErrorIs(t, err, row.want)
	}
	for info, err := range driver.List(t.Context(), "") {
		require.NoError(t, err)
		require.Fail(t, info.Key)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, name := range []string{"a", "a.ts", "天气.ts", "a b.ts", "a%2Fb.ts", strings.Repeat("n", 200)} {
		require.NoError(t, artifact.CheckName(name))
		put(t, s, artifact.Tools, name, nil)
	}
	for _, name := range []string{"", ".", "..", ".a", "a.", " a", "a ", "a/b", `a\b`, "a\x00b", "a\nb", "a\u0085b", "\xff", "C:a", "a?b", "a*", "a|b", `a"b`, "<a>", strings.Repeat("n", 201)} {
		require.Error(t, artifact.CheckName(name), "%q", name)
		_, err := s.Put(t.Context(), artifact.Tools, name, strings.NewReader("x"))
		require.Error(t, err, "%q", name)
	}
	_, err := s.Put(t.Context(), "other", "a.ts", strings.NewReader("x"))
	require.Error(t, err)
}
