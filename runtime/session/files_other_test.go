//go:build !(darwin || linux)

package session_test

import (
	"errors"

	"github.com/seed93082962/agenthost/runtime/session"
)

func fillDisk(*session.Files, session.Session) error { return errors.ErrUnsupported }
