package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/artifact"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
)

const (
	// formatVersion is the version of the archive. A program reads those up to its own.
	formatVersion = 1

	// maxManifest bounds the manifest in bytes: that of 100,000 artifacts has about 15 MB.
	maxManifest = 64 << 20
)

// manifestLimit bounds the values of a manifest.
var manifestLimit = jsonlimit.Limit{Values: 2_000_000, Depth: 4}

// Manifest describes a backup. It is the first member of the archive.
type Manifest struct {
	Version int            `json:"version"` // of the format
	Hub     string         `json:"hub"`     // version of the hub that wrote it
	Created time.Time      `json:"created"`
	Engine  db.Engine      `json:"engine"`
	Schema  map[string]int `json:"schema"` // number of the newest migration of each series

	// Keys are the ids of the keys with which secrets in the database are sealed, in hex. The keys
	// are not in the backup.
	Keys []string `json:"keys"`

	Database  Database   `json:"database"`
	Artifacts []Artifact `json:"artifacts"`

	// Missing are the keys of artifacts that the database names and that did not exist.
	Missing []string `json:"missing,omitempty"`
}

// Database describes the dump of the database.
type Database struct {
	Size   int64  `json:"size"`   // bytes
	SHA256 string `json:"sha256"` // hex
}

// Artifact describes a file of a tool or a skill. Its key has the SHA-256 of its content.
type Artifact struct {
	Key  string `json:"key"`
	Size int64  `json:"size"` // bytes
}

// Size returns the sum of the sizes of the members in bytes.
func (m Manifest) Size() int64 {
	size := m.Database.Size
	for _, a := range m.Artifacts {
		size += a.Size
	}

	return size
}

// errFormat is the error of an archive that this program did not write.
var errFormat = errors.New("the file is not a backup of a hub, or is damaged")

// parseManifest reads the manifest of an archive of archiveSize bytes.
func parseManifest(data []byte, archiveSize int64) (Manifest, error) {
	if err := manifestLimit.Check(data); err != nil {
		return Manifest{}, fmt.Errorf("%w: manifest: %w", errFormat, err)
	}

	var m Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("%w: manifest: %w", errFormat, err)
	}

	if m.Version > formatVersion {
		return m, fmt.Errorf("the backup has format %d, and this program reads up to %d: restore it with hub %s or a newer one", m.Version, formatVersion, m.Hub)
	}

	if m.Version < 1 || m.Engine != db.SQLite && m.Engine != db.PostgreSQL || !validMember(m.Database.SHA256, m.Database.Size, archiveSize) {
		return m, fmt.Errorf("%w: its manifest is not complete", errFormat)
	}

	rest, last := archiveSize-m.Database.Size, ""
	for _, a := range m.Artifacts {
		ref, ok := artifact.ParseKey(a.Key)
		if !ok || a.Key <= last || !validMember(ref.Hash, a.Size, rest) {
			return m, fmt.Errorf("%w: artifact %q", errFormat, a.Key)
		}

		last = a.Key
		rest -= a.Size // members are not compressed: an archive is longer than their sum
	}

	return m, nil
}

// validMember reports whether a member can have the hash and the size in an archive.
func validMember(hash string, size, archiveSize int64) bool {
	return len(hash) == 64 && strings.Trim(hash, "0123456789abcdef") == "" && size >= 0 && size <= archiveSize
}
