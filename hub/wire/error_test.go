package wire_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/wire"
)

// A program can compare a code that has no constant, and the text of an error has the code once.
func TestCodesAreCompared(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("delete user: %w", &wire.Error{Code: "last_admin", Message: "Another one is needed.", Cause: errors.New("why")})
	require.ErrorIs(t, err, wire.Code("last_admin"))
	require.NotErrorIs(t, err, wire.Conflict)
	require.EqualError(t, err, "delete user: last_admin: Another one is needed.: why")
	require.EqualError(t, &wire.Error{Code: wire.NotFound}, "not_found")
	require.EqualError(t, &wire.Error{Status: 502}, "status 502 Bad Gateway")
}
