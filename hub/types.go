package hub

import (
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/backup"
	"github.com/seed93082962/agenthost/hub/internal/external"
	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/internal/secret"
)

// Caller is the user of a request, see [Config.Authenticate].
type Caller = api.Caller

// IdentityProvider is the client of external mode for the organization "default", and its keys.
type IdentityProvider = external.GlobalClient

// CheckBootstrapAdmin returns an error if the text is not an item of [Config.BootstrapAdmins].
func CheckBootstrapAdmin(text string) error { return external.CheckAdmin(text) }

// Price is what the tokens of a model cost.
type Price = usage.Price

// BackupManifest describes a backup.
type BackupManifest = backup.Manifest

// GenerateKey returns a new key for [Config.EncryptionKeys].
func GenerateKey() string { return secret.Generate() }
