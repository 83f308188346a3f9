package session

import (
	"path/filepath"
	"strings"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/internal/pattern"
)

var agentForm = pattern.Compile(`^[a-z0-9](-?[a-z0-9])*$`)

// validAgent reports whether id is a valid agent id. As in validFile, IsLocal rejects the device
// names of Windows.
func validAgent(id string) bool {
	return len(id) <= 63 && agentForm().MatchString(id) && filepath.IsLocal(id)
}

func validFile(id string) bool { return ids.ValidSession(id) && filepath.IsLocal(id+extension) }

const (
	extension    = ".jsonl"
	newExtension = ".new" // the file that Compact renames over the transcript
)

// paths returns the paths that a session's file may have, relative to root: the present one, and
// that of former versions.
func (f *Files) paths(k key) []string {
	agent := filepath.Join(f.base, k.agent)
	return []string{filepath.Join(agent, shard(k.id), k.id+extension), filepath.Join(agent, k.id+extension)}
}

// shard returns the folder of a session. New ids begin with their time in milliseconds, of which it
// has the digits for 4 s to 17 min: runs that begin together are stored and synced together.
func shard(id string) string {
	if _, err := ids.Parse(id); err != nil {
		return "" // there are only files of former versions
	}

	return strings.ToLower(id[7:8] + id[9:10])
}

// temporary returns the path of the file that Compact renames over a transcript.
func temporary(path string) string { return strings.TrimSuffix(path, extension) + newExtension }
