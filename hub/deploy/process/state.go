package process

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/netip"
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
	CutAt     time.Time `json:"cutAt"`     // when its runs were cancelled; zero if they continue

	damaged bool // the file cannot be read
}

// alive reports whether the runtime is running. A process of another boot is not.
func (s *state) alive() bool { return s.PID > 1 && s.Birth != "" && birth(s.PID) == s.Birth }

// reap kills what a runtime that has ended left. A damaged state does not name the runtime: then
// the runtime is one of the processes with the mark of the revision.
func (s *state) reap(r revision) {
	if s.PID > 1 {
		killOrphans(s.PID, s.Birth, r.mark())
	}

	killLeft(r.mark())
}

// mark returns the variable by which all processes of a revision are found.
func (r revision) mark() string { return "TMPDIR=" + r.temporary() }

// maxState bounds the bytes of a state file.
const maxState = 64 << 10

// load returns the state, which is zero if there is none, or if it is damaged: then the deployment
// has no known process and no known revision, and the next step applies its request again.
func (f folder) load() (s state, err error) {
	text, err := readRegular(f.path(stateFile), maxState)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return state{}, nil
	case errors.Is(err, errIrregular), errors.Is(err, fs.ErrPermission):
		return state{damaged: true}, nil
	case err != nil:
		return state{}, err
	}

	if err := json.Unmarshal(text, &s); err != nil || !s.valid() {
		return state{damaged: true}, nil //nolint:nilerr // that is the result
	}

	return s, nil
}

// valid reports whether the driver may have written the state.
func (s *state) valid() bool {
	if s.Addr != "" {
		at, err := netip.ParseAddrPort(s.Addr)
		if err != nil || !at.Addr().IsLoopback() || at.Port() == 0 {
			return false
		}
	}

	return s.Revision >= 0 && s.PID >= 0 && s.PID != 1 && (s.PID == 0 || s.Addr != "")
}

func (r revision) save(s state) error {
	text, err := json.Marshal(s)
	if err == nil {
		err = r.write(stateFile, text)
	}

	if err != nil {
		return clean("write state of deployment", err)
	}

	return nil
}

// errIrregular reports that a path leads to something other than a file of a bounded size.
var errIrregular = errors.New("it is not a regular file, or too large")

// readRegular returns the content of a file, which an agent with Bash may have replaced by
// anything.
func readRegular(path string, most int64) ([]byte, error) {
	f, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}

	defer func() { _ = f.Close() }() // it was opened for reading
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = errIrregular
	}

	return text, err
}
