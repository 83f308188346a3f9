package deadline_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/leaf/deadline"
)

// recorder is a response writer that records deadlines.
type recorder struct {
	*httptest.ResponseRecorder
	writes    []int
	deadlines []time.Time
	err       error // of SetWriteDeadline
}

func (r *recorder) Write(p []byte) (int, error) {
	r.writes = append(r.writes, len(p))
	return r.ResponseRecorder.Write(p)
}

func (r *recorder) SetWriteDeadline(t time.Time) error {
	r.deadlines = append(r.deadlines, t)
	return r.err
}

func TestWriteExtendsTheDeadlineForEachChunk(t *testing.T) {
	for size, writes := range map[int][]int{
		0:                       nil,
		1:                       {1},
		deadline.Chunk:          {deadline.Chunk},
		deadline.Chunk + 1:      {deadline.Chunk, 1},
		3*deadline.Chunk - 1000: {deadline.Chunk, deadline.Chunk, deadline.Chunk - 1000},
	} {
		rec := &recorder{ResponseRecorder: httptest.NewRecorder()}
		w := deadline.NewWriter(rec, time.Minute)
		before := time.Now()
		n, err := w.Write(bytes.Repeat([]byte("x"), size))
		require.NoError(t, err)
		require.Equal(t, size, n)
		require.Equal(t, writes, rec.writes)
		require.Len(t, rec.deadlines, max(1, len(writes)))
		require.Equal(t, size, rec.Body.Len())
		for _, at := range rec.deadlines {
			require.WithinRange(t, at, before.Add(time.Minute), time.Now().Add(time.Minute))
		}
		require.NoError(t, w.Clear())
		require.True(t, rec.deadlines[len(rec.deadlines)-1].IsZero())
	}
}

func TestTimeout(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{0: 30 * time.Second, time.Second: time.Second, -1: 0} {
		rec := &recorder{ResponseRecorder: httptest.NewRecorder()}
		w := deadline.NewWriter(rec, given)
		require.Equal(t, want, w.Timeout())
		_, err := w.Write([]byte("x"))
		require.NoError(t, err)
		require.NoError(t, w.Clear())
		require.Equal(t, want == 0, len(rec.deadlines) == 0)
	}
}

func TestErrorsOfDeadlines(t *testing.T) {
	rec := &recorder{ResponseRecorder: httptest.NewRecorder(), err: http.ErrNotSupported}
	w := deadline.NewWriter(rec, 0)
	for range 3 {
		_, err := w.Write([]byte("x"))
		require.NoError(t, err)
	}
	require.Len(t, rec.deadlines, 1, "a writer without deadlines is asked once")
	require.Equal(t, "xxx", rec.Body.String())

	closed := errors.New("connection is closed")
	rec = &recorder{ResponseRecorder: httptest.NewRecorder(), err: closed}
	w = deadline.NewWriter(rec, 0)
	_, err := w.Write([]byte("x"))
	require.ErrorIs(t, err, closed)
	require.Empty(t, rec.writes)
}
