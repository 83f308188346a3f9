package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// state is what the hub must know about a deployment after a restart.
type state struct {
	Revision  int64     `json:"revision"`
	PID       int       `json:"pid"`       // of the last runtime; 0 if its end was handled
	Birth     string    `json:"birth"`     // of the process, which distinguishes it from later ones with the id
	Addr      string    `json:"addr"`      // on which it listens; the next one uses the same if it can
	StartedAt time.Time `json:"startedAt"` // of the last runtime
	StoppedAt time.Time `json:"stoppedAt"` // when it was requested to end; zero if it should run
}

// alive reports whether the runtime is running.
func (s *state) alive() bool { return s.PID != 0 && birth(s.PID) == s.Birth }

// reap kills what a runtime that has ended left.
func (s *state) reap(f folder) {
	if s.PID != 0 {
		killOrphans(s.PID, s.Birth)
		f.killLeft()
	}
}

// load returns the state, which is zero if there is none.
func (f folder) load() (s state, err error) {
	text, err := os.ReadFile(f.path(stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("decode %s: %w", stateFile, err)
	}
	return s, nil
}

func (f folder) save(s state) error {
	text, err := json.Marshal(s)
	if err == nil {
		err = f.write(stateFile, text)
	}
	if err != nil {
		return clean("write state of deployment", err)
	}
	return nil
}
