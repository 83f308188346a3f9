package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/session"
)

// store is a session store with Close.
type store interface {
	session.Store
	Close() error
}

// memory is a store without resources to release.
type memory struct{ *session.Memory }

func (memory) Close() error { return nil }

// openSessions opens the store in the state directory. If there is none, sessions end with the
// process, and a warning is logged.
func (s *settings) openSessions(file *agent.File, log *slog.Logger) (store, error) {
	limits := file.Limits.WithDefaults()
	inMemory := memory{session.NewMemory(session.MemoryConfig{TTL: limits.SessionTTL})}
	cwd, err := filepath.Abs(file.CWD)
	if err != nil {
		return nil, fmt.Errorf("find the working directory: %w", err)
	}
	dir := cmp.Or(s.StateDir, file.StateDir)
	named := dir != ""
	switch {
	case named:
	case s.XDGState != "" && filepath.IsAbs(s.XDGState):
		dir = filepath.Join(s.XDGState, "agenthost")
	case s.LocalAppData != "":
		dir = filepath.Join(s.LocalAppData, "agenthost", "state")
	case s.Home != "":
		dir = filepath.Join(s.Home, ".local", "state", "agenthost")
	default:
		log.Warn("sessions are stored in memory and end with the process: there is no home directory; set AGENT_STATE_DIR")
		return inMemory, nil
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("find the state directory: %w", err)
	}
	if below(cwd, dir) {
		if !named {
			log.Warn("sessions are stored in memory and end with the process: the state directory would be in the working directory, "+
				"where agents and the files interface read it; set AGENT_STATE_DIR", "dir", dir)
			return inMemory, nil
		}
		log.Warn("the state directory is in the working directory: agents and the files interface can read all sessions", "dir", dir)
	}
	return session.NewFiles(session.FilesConfig{Dir: dir, CWD: cwd, TTL: limits.SessionTTL, Logger: log})
}

// below reports whether path is dir or below it, with links resolved as far as they exist.
func below(dir, path string) bool {
	rel, err := filepath.Rel(resolved(dir), resolved(path))
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// resolved resolves the links of the existing part of a path.
func resolved(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(resolved(parent), filepath.Base(path))
}
