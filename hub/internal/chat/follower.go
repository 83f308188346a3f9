package chat

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/aigc"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/wire"
)

// followWithin bounds a query of a follower.
const followWithin = 10 * time.Second

// follower follows the answers of other hubs for all readers of this one: with one query for many
// answers, and one copy of each text.
type follower struct {
	s     *Service
	every time.Duration
	ctx   context.Context // until Close
	close context.CancelFunc
	loop  sync.WaitGroup

	mu      sync.Mutex // guards the fields below, and those of followed
	answers map[string]*followed
	running bool // the loop, while there are answers
}

func newFollower(s *Service) *follower {
	f := &follower{s: s, every: cmp.Or(s.cfg.Relay.SaveEvery, time.Second) / 2, answers: map[string]*followed{}}
	f.ctx, f.close = context.WithCancel(context.Background())
	return f
}

// followed is an answer with readers.
type followed struct {
	run relay.AnswerRun

	readers   int
	now       *stored
	changed   chan struct{} // closed after now is replaced
	freeSince time.Time     // no hub has the run
}

// stored is what is stored of an answer at one time. It does not change.
type stored struct {
	progress

	message message
	answer  relay.Stored
	ended   bool
	err     error
	release func() // the memory
}

// failure ends the streams of an answer that cannot be read.
func failure(err error) *stored { return &stored{ended: true, err: err, release: func() {}} }

// follow returns an answer until the caller calls the function.
func (f *follower) follow(ctx context.Context, run relay.AnswerRun) (*followed, func(), error) {
	f.mu.Lock()
	one := f.answers[run.ID]
	if one != nil {
		one.readers++
	}

	f.mu.Unlock()
	if one == nil {
		now, err := f.first(ctx, run)
		if err != nil {
			return nil, nil, err
		}

		one = f.enter(run, now)
	}

	return one, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if one.readers--; one.readers == 0 {
			one.now.release()
			if f.answers[run.ID] == one {
				delete(f.answers, run.ID)
			}
		}
	}, nil
}

// current returns what is stored of an answer, and a channel that is closed when that changes.
func (f *follower) current(one *followed) (*stored, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return one.now, one.changed
}

// first reads an answer that is not followed.
func (f *follower) first(ctx context.Context, run relay.AnswerRun) (*stored, error) {
	found, err := progressOf(ctx, f.s.store.Read(), run)
	if err != nil {
		return nil, err
	}

	now := found[placeOf(run)]
	return f.read(ctx, run, now, now.over())
}

// enter adds a reader to an answer, which is followed if it is in progress.
func (f *follower) enter(run relay.AnswerRun, now *stored) *followed {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.answers[run.ID]
	if one != nil && !now.ended { // another reader was faster
		now.release()
		one.readers++
		return one
	}

	one = &followed{run: run, readers: 1, now: now, changed: make(chan struct{})}
	if now.ended || f.ctx.Err() != nil {
		return one
	}

	f.answers[run.ID] = one
	if !f.running {
		f.running = true
		f.loop.Go(f.run)
	}

	return one
}

// run polls the answers until none is followed.
func (f *follower) run() {
	tick := time.NewTicker(f.every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-f.ctx.Done():
			return
		}

		f.mu.Lock()
		all := slices.Collect(maps.Values(f.answers))
		f.running = len(all) > 0
		f.mu.Unlock()
		if len(all) == 0 {
			return
		}

		for some := range slices.Chunk(all, progressWidth) {
			f.poll(some)
		}
	}
}

// poll reads the answers that have changed. If that fails, their readers come again.
func (f *follower) poll(some []*followed) {
	ctx, cancel := context.WithTimeout(f.ctx, followWithin)
	defer cancel()
	var runs []relay.AnswerRun
	for _, one := range some {
		runs = append(runs, one.run)
	}

	found, err := progressOf(ctx, f.s.store.Read(), runs...)
	var unmarked []string
	for _, one := range some {
		now := found[placeOf(one.run)]
		if now.Leased && !now.Free && !now.Followed {
			unmarked = append(unmarked, one.run.ID)
		}

		f.update(ctx, one, now, err)
	}

	if err == nil && len(unmarked) > 0 {
		if err := relay.Followed(ctx, f.s.store.DB.Write(), unmarked); err != nil {
			f.s.store.Logger.Warn("following answers failed", "err", err)
		}
	}
}

// update replaces what is stored of an answer, if it has changed.
func (f *follower) update(ctx context.Context, one *followed, now progress, err error) {
	if !now.Free {
		one.freeSince = time.Time{}
	} else if one.freeSince.IsZero() {
		one.freeSince = time.Now()
	}

	ended := now.over() || now.Free && time.Since(one.freeSince) > 4*f.every
	before, _ := f.current(one)
	if err == nil && !ended && now == before.progress {
		return
	}

	var next *stored
	if err == nil {
		next, err = f.read(ctx, one.run, now, ended)
	}

	if err != nil {
		next = failure(err)
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	if f.answers[one.run.ID] != one { // the last reader has left
		next.release()
		return
	}

	one.now.release()
	one.now = next
	close(one.changed)
	one.changed = make(chan struct{})
	if next.ended {
		delete(f.answers, one.run.ID)
	}
}

// read returns what is stored of an answer.
func (f *follower) read(ctx context.Context, run relay.AnswerRun, now progress, ended bool) (*stored, error) {
	if now.Status == "" { // the chat was deleted
		return failure(noSession()), nil
	}

	release, err := f.s.relay.Hold(run, relay.StoredCopies*now.Size)
	if err != nil {
		return nil, err
	}

	found, err := messagesOf(ctx, f.s.store.Read(), session{TenantID: run.TenantID, Key: run.SessionKey}, run.Seq-1, run.Seq)
	if err == nil && (len(found) == 0 || found[0].ID != run.MessageID) {
		err = noSession()
	}

	if err != nil {
		release()
		if errors.Is(err, wire.NotFound) {
			return failure(err), nil
		}

		return nil, err
	}

	m := found[0]
	if !ended && m.NoticeAt == aigc.ModeAppend {
		m.Notice = ""
	}

	next := &stored{progress: now, message: m, ended: ended, release: release}
	next.answer.SessionID, next.answer.MessageID = run.SessionID, m.ID
	next.answer.Model, next.answer.Ended = m.Model, ended
	next.answer.Blocks = relay.Labelled(m.Text, m.Content, m.Notice, m.NoticeAt)
	if m.Usage != nil {
		next.answer.Usage = *m.Usage
	}

	return next, nil
}
