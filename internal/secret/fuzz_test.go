package secret_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/secret"
)

func FuzzOpen(f *testing.F) {
	r := ring(f, raw(1), raw(2))
	sealed := r.Seal([]byte("x"), place)
	f.Add(sealed, place)
	f.Add(sealed[:36], place)
	f.Add([]byte{}, []byte{})
	f.Add(append([]byte{1}, make([]byte, 40)...), []byte{})
	f.Fuzz(func(t *testing.T, data, aad []byte) {
		plain, err := r.Open(data, aad)
		if err == nil { // a seed may come from another process: no input guesses a tag
			require.Len(t, data, len(sealed))
			require.Equal(t, place, aad)
			require.Equal(t, "x", string(plain))
			return
		}
		require.NotEqual(t, errors.Is(err, secret.ErrCorrupt), errors.Is(err, secret.ErrUnknownKey))
		fresh, resealed := r.Reseal(data, aad, nil)
		require.Nil(t, fresh)
		require.True(t, resealed == nil || errors.Is(resealed, secret.ErrCorrupt) || errors.Is(resealed, secret.ErrUnknownKey))
	})
}

func FuzzParse(f *testing.F) {
	f.Add("")
	f.Add(",")
	f.Add(secret.Generate() + ", " + secret.Generate())
	f.Add(secret.Generate() + ",hunter2")
	f.Fuzz(func(t *testing.T, keys string) {
		r, err := secret.Parse(strings.Split(keys, ",")...)
		if err != nil {
			require.Nil(t, r)
			require.Contains(t, err.Error(), "openssl rand -base64 32")
			for part := range strings.SplitSeq(keys, ",") {
				if part = strings.TrimSpace(part); len(part) > 20 {
					require.NotContains(t, err.Error(), part)
				}
			}
			return
		}
		fresh, err := r.Reseal(r.Seal(nil, nil), nil, nil)
		require.NoError(t, err)
		require.Nil(t, fresh)
	})
}

func FuzzAAD(f *testing.F) {
	f.Add("t", "c", "r", "tc", "", "r")
	f.Fuzz(func(t *testing.T, a, b, c, x, y, z string) {
		same := a == x && b == y && c == z
		require.Equal(t, same, bytes.Equal(secret.AAD(a, b, c), secret.AAD(x, y, z)))
	})
}
