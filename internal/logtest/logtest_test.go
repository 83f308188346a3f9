package logtest_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/logtest"
)

func TestConcurrentReadsAndWrites(t *testing.T) {
	var log logtest.Buffer
	const writers, each = 4, 100
	for w := range writers {
		go func() {
			for i := range each {
				fmt.Fprintf(&log, "line %d of %d\n", i, w)
			}
		}()
	}
	text, wrote := log.Now()
	for strings.Count(text, "\n") < writers*each {
		<-wrote
		text, wrote = log.Now()
	}
	require.Equal(t, text, log.String())
	for line := range strings.Lines(text) {
		require.Regexp(t, `^line \d+ of \d\n$`, line)
	}
}

func TestAllWaitersWake(t *testing.T) {
	var log logtest.Buffer
	var woken sync.WaitGroup
	for range 3 {
		text, wrote := log.Now()
		require.Empty(t, text)
		woken.Go(func() { <-wrote })
	}
	fmt.Fprint(&log, "x")
	woken.Wait()
	_, wrote := log.Now()
	select {
	case <-wrote:
		require.Fail(t, "received an earlier write")
	default:
	}
}
