package session

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/internal/token"
	"github.com/seed93082962/agenthost/hub/internal/user"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

const (
	codeLife = time.Minute // until a code cannot be exchanged
	maxCodes = 3           // of a user that are not exchanged
)

// AuthorizeProgram begins a session of the caller for a program on the same computer. The code is
// the first refresh token of the session: [Service.Refresh] accepts it once, within a minute, and
// only with the verifier, while the session of the caller continues. The session ends no later
// than that of the caller would, and with the session at the identity provider. The newest
// maxCodes codes of a user are valid.
func (s *Service) AuthorizeProgram(ctx context.Context, caller api.Caller, in bodies.AuthorizeProgramRequest) (wire.ProgramCode, error) {
	if caller.Kind != api.Session {
		return wire.ProgramCode{}, wire.Forbidden.New("A CLI token cannot sign a program in: sign in to the console.")
	}

	if hash, err := base64.RawURLEncoding.Strict().DecodeString(in.Challenge); err != nil || len(hash) != sha256.Size {
		return wire.ProgramCode{}, api.Fields{"code_challenge": "must be a SHA-256 hash in base64url without padding"}
	}

	random, _ := token.Random("rt_")
	code := random + "-" + caller.SessionID
	var out wire.ProgramCode
	err := s.users.Change(ctx, caller, rbac.Group{}, func(tx *store.Tx) error {
		u, err := user.ByID(ctx, tx, caller.TenantID, caller.UserID)
		if err != nil {
			return err
		}

		own, err := readOrigin(ctx, tx, caller)
		if err != nil {
			return err
		}

		own.id = ids.New() // on the device of the caller
		own.idle = earlier(tx.Now.Add(codeLife), own.limit)
		if err := insertSession(ctx, tx, u, own, caller); err != nil {
			return err
		}

		if err := insertRefreshToken(ctx, tx, boundHash(code, in.Challenge), own.id); err != nil {
			return err
		}

		if err := deleteCodes(ctx, tx, u); err != nil {
			return err
		}

		tx.Record(actionAuthorize.Record(u.Event(caller), sessionDetail{SessionID: own.id}))
		out = wire.ProgramCode{Code: code, ExpiresIn: seconds(own.idle.Sub(tx.Now))}
		return nil
	})
	return out, err
}

// authorizer returns the id of the session that authorized a code.
func authorizer(code string) string {
	_, id, _ := strings.Cut(code, "-")
	return id
}

// refreshHash returns the stored form of the token, or of a code with its verifier.
func refreshHash(in bodies.RefreshRequest) []byte {
	if in.Verifier == "" {
		return hashOf(in.RefreshToken)
	}

	challenge := sha256.Sum256([]byte(in.Verifier))
	return boundHash(in.RefreshToken, base64.RawURLEncoding.EncodeToString(challenge[:]))
}

// boundHash returns the stored form of a code, which is known only with its challenge.
func boundHash(code, challenge string) []byte { return token.Hash(code + "." + challenge) }

// hashOf returns the stored form of a refresh token, or nil for a text that has a dot, as no
// refresh token does: a code with its challenge, in place of its verifier, must not be one.
func hashOf(raw string) []byte {
	if strings.Contains(raw, ".") {
		return nil
	}

	return token.Hash(raw)
}
