package secret_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/secret"
)

// raw returns a key of one byte, 32 times.
func raw(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

func ring(t testing.TB, keys ...[]byte) *secret.Keyring {
	t.Helper()
	r, err := secret.New(keys...)
	require.NoError(t, err)
	return r
}

var place = secret.AAD("providers", "api_key_enc", "7")

func TestSealAndOpen(t *testing.T) {
	r := ring(t, raw(1))
	for _, plain := range []string{"", "x", "sk-0123456789", strings.Repeat("long", 1<<16)} {
		for _, aad := range [][]byte{nil, place} {
			sealed := r.Seal([]byte(plain), aad)
			require.Len(t, sealed, len(plain)+37)
			require.NotEqual(t, sealed, r.Seal([]byte(plain), aad), "the nonce is random")
			if len(plain) > 4 {
				require.NotContains(t, string(sealed), plain)
			}
			got, err := r.Open(sealed, aad)
			require.NoError(t, err)
			require.Equal(t, plain, string(got))
		}
	}
}

func TestTheFirstKeyEncryptsAndAllDecrypt(t *testing.T) {
	old, both, fresh := ring(t, raw(1)), ring(t, raw(2), raw(1)), ring(t, raw(2))
	sealedOld := old.Seal([]byte("x"), place)
	sealedNew := both.Seal([]byte("x"), place)
	for name, row := range map[string]struct {
		ring   *secret.Keyring
		sealed []byte
		stale  bool
		err    error
	}{
		"before":                 {old, sealedOld, false, nil},
		"while both are there":   {both, sealedOld, true, nil},
		"sealed anew":            {both, sealedNew, false, nil},
		"after":                  {fresh, sealedNew, false, nil},
		"sealed anew too late":   {fresh, sealedOld, true, secret.ErrUnknownKey},
		"by one that is too old": {old, sealedNew, true, secret.ErrUnknownKey},
		"what was never sealed":  {both, []byte("plain text that somebody put here, long enough"), true, secret.ErrCorrupt},
		"what is too short":      {both, sealedNew[:36], true, secret.ErrCorrupt},
		"nothing":                {both, nil, true, secret.ErrCorrupt},
		"of a later version":     {both, append([]byte{2}, sealedNew[1:]...), true, secret.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			fresh, resealed := row.ring.Reseal(row.sealed, place, nil)
			plain, err := row.ring.Open(row.sealed, place)
			if row.err != nil {
				require.ErrorIs(t, err, row.err)
				require.ErrorIs(t, resealed, row.err)
				require.Nil(t, plain)
				require.Nil(t, fresh)
				return
			}
			require.NoError(t, resealed)
			require.Equal(t, row.stale, fresh != nil)
			if row.stale {
				row.sealed = fresh
				fresh, err = row.ring.Reseal(fresh, place, nil)
				require.NoError(t, err)
				require.Nil(t, fresh)
			}
			plain, err = row.ring.Open(row.sealed, place)
			require.NoError(t, err)
			require.Equal(t, "x", string(plain))
		})
	}
}

func TestAlteredValuesDoNotOpen(t *testing.T) {
	r := ring(t, raw(1), raw(2))
	sealed := r.Seal([]byte("x"), place)
	for i := range len(sealed) * 8 {
		changed := bytes.Clone(sealed)
		changed[i/8] ^= 1 << (i % 8)
		_, err := r.Open(changed, place)
		want := secret.ErrCorrupt
		if 1 <= i/8 && i/8 <= 8 { // the key id
			want = secret.ErrUnknownKey
		}
		require.ErrorIs(t, err, want, "bit %d", i)
	}
	for n := range sealed {
		_, err := r.Open(sealed[:n], place)
		require.ErrorIs(t, err, secret.ErrCorrupt)
	}
	_, err := r.Open(append(bytes.Clone(sealed), 0), place)
	require.ErrorIs(t, err, secret.ErrCorrupt)

	other := r.Seal([]byte("x"), nil) // the id of one key before what another has sealed
	second := ring(t, raw(2)).Seal([]byte("x"), nil)
	_, err = r.Open(append(bytes.Clone(second[:9]), other[9:]...), nil)
	require.ErrorIs(t, err, secret.ErrCorrupt)
}

func TestASealedValueIsBoundToItsPlace(t *testing.T) {
	r := ring(t, raw(1))
	places := [][]byte{
		nil, place,
		secret.AAD("providers", "api_key_enc", "8"),
		secret.AAD("providers", "api_key", "7"),
		secret.AAD("clients", "api_key_enc", "7"),
		secret.AAD("providersapi", "_key_enc", "7"),
		secret.AAD("providers", "api_key_enc7", ""),
		secret.AAD("", "providersapi_key_enc", "7"),
		secret.AAD("", "", ""),
		secret.AAD("providers", "api_key_enc", "7", ""),
		secret.AAD("providers", "api_key_enc", "7", "acme"),
		secret.AAD("providers", "api_key_enc", "7", "acme", "https://a"),
		secret.AAD("providers", "api_key_enc", "7", "acmehttps://a"),
	}
	for i, a := range places {
		sealed := r.Seal([]byte("x"), a)
		for j, b := range places {
			_, err := r.Open(sealed, b)
			if i == j {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, secret.ErrCorrupt)
			}
		}
	}
}

// A value that an earlier version sealed for less than a row is sealed again for all of it, and
// then no longer for the former place.
func TestValuesOfAnEarlierVersion(t *testing.T) {
	former, now := secret.AAD("t", "c", "1"), secret.AAD("t", "c", "1", "acme")
	older, both := ring(t, raw(1)), ring(t, raw(2), raw(1))
	for name, reseal := range map[string]func(sealed, aad []byte, former ...[]byte) ([]byte, error){"rebind": both.Rebind, "reseal": both.Reseal} {
		for _, by := range []*secret.Keyring{older, both} {
			fresh, err := reseal(by.Seal([]byte("x"), former), now, former)
			require.NoError(t, err, name)
			plain, err := both.Open(fresh, now)
			require.NoError(t, err)
			require.Equal(t, "x", string(plain))
			_, err = both.Open(fresh, former)
			require.ErrorIs(t, err, secret.ErrCorrupt)
			again, err := reseal(fresh, now, former)
			require.NoError(t, err)
			require.Nil(t, again)
		}
	}
	other, err := both.Rebind(older.Seal([]byte("x"), now), now, former)
	require.NoError(t, err)
	require.Nil(t, other, "only a command seals with another key")
	_, err = both.Reseal(older.Seal([]byte("x"), secret.AAD("t", "c", "2")), now, former)
	require.ErrorIs(t, err, secret.ErrCorrupt)
}

// Values that the first release sealed can always be opened.
func TestFormat(t *testing.T) {
	const sealed = "01720a8e36b5ef6c53eb0264693583c10238dde33199d14c692974766721b6f2b8f547b544d16139da1d3fea3c"
	data, err := hex.DecodeString(sealed)
	require.NoError(t, err)
	plain, err := ring(t, raw(1)).Open(data, place)
	require.NoError(t, err)
	require.Equal(t, "a secret", string(plain))
}

func TestParse(t *testing.T) {
	one, two := base64.StdEncoding.EncodeToString(raw(1)), base64.StdEncoding.EncodeToString(raw(2))
	const how = "generate one with `openssl rand -base64 32`"
	for name, row := range map[string]struct{ in, want string }{
		"one":                {one, ""},
		"two":                {one + "," + two, ""},
		"white space":        {" " + one + " ,\n\t" + two + "\n", ""},
		"none":               {"", "key 1 is empty"},
		"only white space":   {" \n", "key 1 is empty"},
		"only a comma":       {",", "key 1 is empty"},
		"a comma at the end": {one + ",", "key 2 is empty"},
		"two commas":         {one + ",," + two, "key 2 is empty"},
		"the same twice":     {one + "," + two + "," + one, "key 3 is the same as key 1"},
		"no base64":          {one + ",hunter2!", "key 2 is not base64"},
		"base64 for URLs":    {one + "," + base64.URLEncoding.EncodeToString(raw(0xff)), "key 2 is not base64"},
		"without its end":    {strings.TrimRight(one, "="), "key 1 is not base64"},
		"bits too many":      {one[:42] + "F=", "key 1 is not base64"},
		"hex":                {hex.EncodeToString(raw(1)), "key 1 has 48 bytes, not 32"},
		"16 bytes":           {base64.StdEncoding.EncodeToString(raw(7)[:16]), "key 1 has 16 bytes, not 32"},
		"33 bytes":           {two + "," + base64.StdEncoding.EncodeToString(append(raw(7), 7)), "key 2 has 33 bytes, not 32"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := secret.Parse(strings.Split(row.in, ",")...)
			if row.want == "" {
				require.NoError(t, err)
				opened, err := r.Open(ring(t, raw(1)).Seal([]byte("x"), nil), nil)
				require.NoError(t, err)
				require.Equal(t, "x", string(opened))
				return
			}
			require.Nil(t, r)
			require.ErrorContains(t, err, row.want)
			require.ErrorContains(t, err, how)
			for part := range strings.SplitSeq(row.in, ",") {
				if part = strings.TrimSpace(part); len(part) > 1 {
					require.NotContains(t, err.Error(), part)
				}
			}
		})
	}
	_, err := secret.New()
	require.EqualError(t, err, "no key is given")
	_, err = secret.New(raw(1), nil)
	require.EqualError(t, err, "key 2 has 0 bytes, not 32")
}

func TestGenerate(t *testing.T) {
	a, b := secret.Generate(), secret.Generate()
	require.NotEqual(t, a, b)
	_, err := secret.Parse(a, b)
	require.NoError(t, err)
}

func TestTheKeysOfTheCallerMayBeWiped(t *testing.T) {
	key := raw(1)
	r := ring(t, key)
	clear(key)
	_, err := ring(t, raw(1)).Open(r.Seal([]byte("x"), nil), nil)
	require.NoError(t, err)
}

func TestKeysAreNeverPrinted(t *testing.T) {
	r := ring(t, raw('K'))
	held := struct {
		Ring   *secret.Keyring
		hidden *secret.Keyring
		Value  any
	}{r, r, r}
	var texts []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
		for _, v := range []any{r, *r, &r, held, &held, []*secret.Keyring{r}, map[string]secret.Keyring{"a": *r}} {
			texts = append(texts, fmt.Sprintf(verb, v))
		}
	}
	for _, v := range []any{r, *r, held, map[string]any{"a": r}} {
		data, err := json.Marshal(v)
		require.NoError(t, err)
		texts = append(texts, string(data))
	}
	var log bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(h).Info("x", "ring", r, "value", *r, "held", held)
	}
	texts = append(texts, log.String())
	for _, text := range texts {
		for _, bad := range []string{"KKK", "75 75", "75, 75", "0x4b", "4b4b", "4B4B", base64.StdEncoding.EncodeToString(raw('K'))[:8]} {
			require.NotContains(t, text, bad)
		}
	}
	require.Equal(t, "keyring(1 keys)", r.String())
	require.Equal(t, "keyring(nil)", fmt.Sprint((*secret.Keyring)(nil)))
}

func TestConcurrentTests(t *testing.T) {
	r := ring(t, raw(1), raw(2))
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			aad := secret.AAD("t", "c", fmt.Sprint(i))
			for range 100 {
				if plain, err := r.Open(r.Seal([]byte("x"), aad), aad); err != nil || string(plain) != "x" {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
