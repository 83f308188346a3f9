package run

import "time"

const (
	// cancelGap is the time without a cancel after which a series of cancels has ended.
	cancelGap = 2 * time.Millisecond
	// maxSeries limits the length of a series, and with it the delay of a run by other cancels.
	maxSeries = 50 * time.Millisecond
)

// series is a sequence of cancels in quick succession. Its fields are guarded by Registry.mu.
type series struct {
	last  time.Time     // last cancel
	limit time.Time     // latest end of the series
	ended chan struct{} // closed at its end; nil if there is no series
	timer *time.Timer
}

// extendSeries records a cancel. The second of two cancels in quick succession starts a series. The
// caller holds mu.
func (g *Registry) extendSeries() {
	s, now := &g.series, time.Now()
	if s.ended == nil && now.Sub(s.last) < cancelGap {
		s.ended, s.limit = make(chan struct{}), now.Add(maxSeries)
		s.timer = time.AfterFunc(cancelGap, g.endSeries)
	}
	s.last = now
}

// endSeries ends the series if there was no cancel for cancelGap.
func (g *Registry) endSeries() {
	g.mu.Lock()
	defer g.mu.Unlock()
	s, end := &g.series, g.series.last.Add(cancelGap)
	if s.limit.Before(end) {
		end = s.limit
	}
	if rest := time.Until(end); rest > 0 {
		s.timer.Reset(rest)
		return
	}
	close(s.ended)
	s.ended, s.timer = nil, nil
}

// AwaitCancels waits for the end of a series of cancels, if there is one. The work after a cancel,
// such as storing and logging the end of the run and responding to the request, starts after the
// series. Otherwise the first runs of a series would do this work while the last ones still
// generate tokens.
func (g *Registry) AwaitCancels() {
	g.mu.Lock()
	ended := g.series.ended
	g.mu.Unlock()
	if ended != nil {
		<-ended
	}
}
