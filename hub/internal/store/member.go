package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/internal/db"
)

//go:embed migrations
var files embed.FS

// Migrations create the table that [Store.Join] requires.
var Migrations = db.Embedded("store", files)

// looks is the least number of times that a hub looks at the others in the lease time.
const looks = 4

// lookEvery is the interval of the looks.
func (s *Store) lookEvery() time.Duration { return min(s.leaseTime/looks, time.Second) }

// member is the work of a hub that has joined.
type member struct {
	stop    context.CancelFunc // nil before Join
	running sync.WaitGroup
	beat    int64              // the last one, also from before the hub was removed; only for look
	others  map[string]silence // only for look
}

// silence is a beat of another hub, and how often it was seen again.
type silence struct {
	beat  int64
	looks int
}

// Join adds this hub to the table of the hubs that are alive, and renews its beat until
// [Store.Leave]. Rows with its HubID are free when it is no longer in the table: see [Free].
//
// A hub whose beat did not change for the lease time is removed by another one, which counts how
// often it has seen the beat. So no clocks are compared, and no hub is removed because the database
// was unavailable or the other hub was suspended. A hub that was removed joins again with its
// HubID: it has the rows that no other hub has taken. On SQLite, a hub that joins is the only one
// and removes the former ones immediately.
func (s *Store) Join(ctx context.Context) error {
	err := s.DB.Tx(ctx, func(tx *sql.Tx) error {
		if s.DB.Engine() == db.SQLite {
			if err := removeOthers(ctx, tx, s.HubID); err != nil {
				return err
			}
		}

		return insertHub(ctx, tx, s.HubID, s.member.beat)
	})
	if err != nil {
		return fmt.Errorf("join hubs: %w", err)
	}

	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.member.stop = stop
	s.member.running.Go(func() { s.stay(background) })
	return nil
}

// Leave ends the work of [Store.Join], and frees the rows of this hub. Without Join it has no
// effect.
func (s *Store) Leave() {
	if s.member.stop == nil {
		return
	}

	s.member.stop()
	s.member.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), leaveWithin)
	defer cancel()
	if err := deleteHub(ctx, s.DB.Write(), s.HubID); err != nil {
		s.Logger.Warn("leave hubs", "err", err)
	}
}

// stay looks at all hubs until ctx ends.
func (s *Store) stay(ctx context.Context) {
	timer := time.NewTimer(s.lookEvery())
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}

		if err := s.look(ctx); err != nil && ctx.Err() == nil {
			s.Logger.Warn("renew hub", "err", err)
		}

		timer.Reset(s.lookEvery()) // a look after a late one is not early
	}
}

// look renews the beat of this hub if there are others, and removes those that are silent.
func (s *Store) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*s.lookEvery())
	defer cancel()
	beats, err := readHubs(ctx, s.Read())
	if err != nil {
		return err
	}

	s.member.beat++
	switch _, joined := beats[s.HubID]; {
	case !joined:
		s.Logger.Warn("this hub was silent and was removed by another one: it joins again")
		err = insertHub(ctx, s.DB.Write(), s.HubID, s.member.beat)
	case len(beats) > 1:
		err = renewHub(ctx, s.DB.Write(), s.HubID, s.member.beat)
	}

	if err != nil {
		return err
	}

	return s.removeSilent(ctx, beats)
}

// Serving reports whether a hub serves the database, for a store that has not joined. It joins
// silently, so that the others renew their beats: a hub that was killed does not, which takes the
// lease time.
func (s *Store) Serving(ctx context.Context) (serving bool, err error) {
	before, err := readHubs(ctx, s.Read())
	if err != nil || len(before) == 0 {
		return false, err
	}

	if err := insertHub(ctx, s.DB.Write(), s.HubID, 0); err != nil {
		return false, err
	}

	defer func() { err = errors.Join(err, deleteHub(context.WithoutCancel(ctx), s.DB.Write(), s.HubID)) }()
	tick := time.NewTicker(s.lookEvery())
	defer tick.Stop()
	for range looks + 1 {
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-tick.C:
		}

		now, err := readHubs(ctx, s.Read())
		if err != nil {
			return false, err
		}

		for id, former := range before {
			if beat, joined := now[id]; joined && beat != former {
				return true, nil
			}
		}
	}

	return false, nil
}

// removeSilent removes the hubs whose beats have not changed for the lease time.
func (s *Store) removeSilent(ctx context.Context, beats map[string]int64) error {
	former := s.member.others
	s.member.others = map[string]silence{}
	for id, beat := range beats {
		if id == s.HubID {
			continue
		}

		seen := silence{beat: beat}
		if last, ok := former[id]; ok && last.beat == beat {
			seen.looks = last.looks + 1
		}

		s.member.others[id] = seen
		if time.Duration(seen.looks)*s.lookEvery() < s.leaseTime {
			continue
		}

		removed, err := removeHub(ctx, s.DB, id, beat)
		if err != nil {
			return err
		}

		if removed {
			s.Logger.Info("a hub that was silent was removed", "hub", id)
		}
	}

	return nil
}
