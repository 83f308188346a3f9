package label_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/aigc/label"
)

const (
	uscc     = "9144030071526726XG"
	producer = "0011" + uscc + "10A0Z"
)

func newKey(t testing.TB, id string) label.Key {
	t.Helper()
	k, err := label.NewKey(id, []byte(strings.Repeat(id, label.MinSecret))[:label.MinSecret])
	require.NoError(t, err)
	return k
}

func newLabel(t testing.TB) label.Label {
	t.Helper()
	l, err := label.New(label.Generated, producer, "hub-0197")
	require.NoError(t, err)
	return l
}

func TestJSONForm(t *testing.T) {
	data, err := json.Marshal(newLabel(t))
	require.NoError(t, err)
	// the order is a part of the form
	require.Equal(t, `{"Label":"1","ContentProducer":"`+producer+`","ProduceID":"hub-0197","ReservedCode1":"",`+
		`"ContentPropagator":"`+producer+`","PropagateID":"hub-0197","ReservedCode2":""}`, string(data))
}

// The signature covers exactly the text that the standard's practice guide defines: an independent
// HMAC of that text produced the expected value (openssl dgst -sha256 -hmac).
func TestSignatureVector(t *testing.T) {
	k, err := label.NewKey("k1", []byte("0123456789abcdef0123456789abcdef"))
	require.NoError(t, err)
	require.Equal(t, "v1.k1.fV3KR8gAISWk5760pR46ghilyjpphh87PKUFoONMEEY", newLabel(t).Sign(k).ReservedCode1)
}

func TestNewRejectsInvalidParts(t *testing.T) {
	for name, row := range map[string]struct {
		kind         label.Certainty
		producer, id string
		want         string
	}{
		"kind 0":            {"0", producer, "x", "must be 1, 2 or 3"},
		"no kind":           {"", producer, "x", "must be 1, 2 or 3"},
		"producer":          {label.Possible, producer[1:], "x", "has 26 characters, must have 27"},
		"empty id":          {label.Suspected, producer, "", "is empty"},
		"long id":           {label.Generated, producer, strings.Repeat("x", 257), "at most 256"},
		"line break in id":  {label.Generated, producer, "a\nb", "not printable"},
		"invalid UTF-8 id":  {label.Generated, producer, "\xff", "not printable"},
		"format character":  {label.Generated, producer, "a\u200eb", "not printable"},
		"non-breaking byte": {label.Generated, producer, "a\u0000", "not printable"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := label.New(row.kind, row.producer, row.id)
			require.ErrorContains(t, err, row.want)
		})
	}
}

func TestVerify(t *testing.T) {
	first, second := newKey(t, "k1"), newKey(t, "k2")
	signed := newLabel(t).Sign(first)
	require.Equal(t, "k1", signed.KeyID())
	for name, row := range map[string]struct {
		change func(l *label.Label)
		keys   []label.Key
		want   error
	}{
		"unchanged":                 {func(*label.Label) {}, []label.Key{first}, nil},
		"one of two keys":           {func(*label.Label) {}, []label.Key{second, first}, nil},
		"another propagator":        {func(l *label.Label) { l.ContentPropagator, l.PropagateID = "x", "y" }, []label.Key{first}, nil},
		"another kind":              {func(l *label.Label) { l.Label = label.Possible }, []label.Key{first}, label.ErrMismatch},
		"another producer":          {func(l *label.Label) { l.ContentProducer = "x" }, []label.Key{first}, label.ErrMismatch},
		"another id":                {func(l *label.Label) { l.ProduceID += "x" }, []label.Key{first}, label.ErrMismatch},
		"fields that run together":  {func(l *label.Label) { l.ContentProducer += `","ProduceID":"` + l.ProduceID; l.ProduceID = "" }, []label.Key{first}, label.ErrMismatch},
		"key of another id":         {func(*label.Label) {}, []label.Key{second}, label.ErrUnknownKey},
		"no key":                    {func(*label.Label) {}, nil, label.ErrUnknownKey},
		"no signature":              {func(l *label.Label) { l.ReservedCode1 = "" }, []label.Key{first}, label.ErrUnsigned},
		"later version":             {func(l *label.Label) { l.ReservedCode1 = "v2" + l.ReservedCode1[2:] }, []label.Key{first}, label.ErrMalformed},
		"two parts":                 {func(l *label.Label) { l.ReservedCode1 = "v1.k1" }, []label.Key{first}, label.ErrMalformed},
		"cut signature":             {func(l *label.Label) { l.ReservedCode1 = l.ReservedCode1[:20] }, []label.Key{first}, label.ErrMalformed},
		"padding":                   {func(l *label.Label) { l.ReservedCode1 += "=" }, []label.Key{first}, label.ErrMalformed},
		"line break in the base64":  {func(l *label.Label) { l.ReservedCode1 += "\n" }, []label.Key{first}, label.ErrMalformed},
		"signature of another text": {func(l *label.Label) { l.ReservedCode1 = changeLast(l.ReservedCode1) }, []label.Key{first}, label.ErrMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			l := signed
			row.change(&l)
			err := l.Verify(row.keys...)
			if row.want == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, row.want)
		})
	}
}

// changeLast changes the first character of the base64 part, which holds no unused bits.
func changeLast(code string) string {
	i := strings.LastIndex(code, ".") + 1
	c := byte('A')
	if code[i] == c {
		c = 'B'
	}
	return code[:i] + string(c) + code[i+1:]
}

func TestParse(t *testing.T) {
	want := newLabel(t).Sign(newKey(t, "k1"))
	data, err := json.Marshal(want)
	require.NoError(t, err)
	inner := string(data)
	for name, text := range map[string]string{
		"the object":    inner,
		"member aigc":   `{"aigc":` + inner + `}`,
		"member AIGC":   ` { "AIGC" : ` + inner + " }\n",
		"another order": `{"ReservedCode2":"",` + strings.Replace(inner[1:], `,"ReservedCode2":""`, "", 1),
		"escapes":       strings.Replace(inner, `"ProduceID":"h`, `"ProduceID":"\u0068`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := label.Parse([]byte(text))
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
	for _, text := range []string{
		"", "null", "[]", "{}", `"x"`, `{"aigc":null}`, `{"aigc":1}`, `{"aigc":{}}`, "{", inner + inner, inner + "]", "[" + inner + "]",
		`{"Aigc":` + inner + `}`, `{"aigc ":` + inner + `}`, `{"x":` + inner + `}`, "{\"title\":\"\xff\"}",
	} {
		_, err := label.Parse([]byte(text))
		require.ErrorContains(t, err, "parse label", "%s", text)
		require.NotErrorIs(t, err, label.ErrForm, text)
	}
}

// A label that programs may read differently is not valid, even if one of the readings is signed:
// some take the first of two members, some the last, some ignore letter case or look into objects.
func TestAmbiguousLabels(t *testing.T) {
	key := newKey(t, "k1")
	data, err := json.Marshal(newLabel(t).Sign(key))
	require.NoError(t, err)
	inner, rest := string(data), string(data[1:])
	forged := strings.Replace(inner, `"Label":"1"`, `"Label":"3"`, 1)
	for _, text := range []string{
		`{"Label":"3",` + rest,
		inner[:len(inner)-1] + `,"Label":"3"}`,
		`{"\u004cabel":"3",` + rest,
		strings.Replace(inner, `"Label"`, `"\u004cabel"`, 1),
		strings.Replace(inner, `"Label"`, `"label"`, 1),
		strings.Replace(inner, `"ProduceID"`, `"ProduceId"`, 1),
		inner[:len(inner)-1] + `,"label":"3"}`,
		inner[:len(inner)-1] + `,"producE\u0049D":"3"}`,
		inner[:len(inner)-1] + `,"Re\u017ferved":"3"}`,
		inner[:len(inner)-1] + `,"Other":1}`,
		inner[:len(inner)-1] + `,"aigc":` + inner + `}`,
		inner[:len(inner)-1] + `,"AIGC":` + forged + `}`,
		`{"aigc":` + inner + `,` + forged[1:],
		`{"aigc":` + inner + `,"aigc":` + forged + `}`,
		`{"aigc":` + inner + `,"AIGC":` + forged + `}`,
		`{"aigc":` + inner + `,"title":"x"}`,
		`{"aigc":{"aigc":` + inner + `}}`,
		`{"aigc":{"Label":"3","aigc":` + inner + `}}`,
		strings.Replace(inner, `"Label":"1"`, `"Label":1`, 1),
		strings.Replace(inner, `"Label":"1"`, `"Label":["1"]`, 1),
		strings.Replace(inner, `"Label":"1"`, `"Label":{"Label":"1"}`, 1),
		strings.Replace(inner, `"Label":"1"`, `"Label":null`, 1),
		strings.Replace(inner, `"Label":"1",`, ``, 1),
		strings.Replace(inner, `,"ReservedCode2":""`, ``, 1),
		`{"Label":"1"}`,
	} {
		_, err := label.Parse([]byte(text))
		if strings.HasPrefix(text, `{"aigc":{"aigc"`) {
			require.Error(t, err, text)
			continue
		}
		require.ErrorIs(t, err, label.ErrForm, text)
	}
}

func FuzzParse(f *testing.F) {
	key := newKey(f, "k1")
	data, err := json.Marshal(newLabel(f).Sign(key))
	require.NoError(f, err)
	f.Add(string(data))
	f.Add(`{"aigc":` + string(data) + `}`)
	f.Fuzz(func(t *testing.T, text string) {
		l, err := label.Parse([]byte(text))
		if err != nil {
			return
		}
		// Every other reader of the object, or of its only member, has the same values.
		var object map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(text), &object))
		if len(object) == 1 {
			for _, inner := range object {
				object = nil
				require.NoError(t, json.Unmarshal(inner, &object))
			}
		}
		require.Len(t, object, 7)
		var producer string
		require.NoError(t, json.Unmarshal(object["ContentProducer"], &producer))
		require.Equal(t, l.ContentProducer, producer)
	})
}

func TestKeys(t *testing.T) {
	secret := []byte(strings.Repeat("s", label.MinSecret))
	for _, id := range []string{"", "a.b", "a b", strings.Repeat("k", 65), "k\n"} {
		_, err := label.NewKey(id, secret)
		require.ErrorContains(t, err, "label key id", "%q", id)
	}
	_, err := label.NewKey("k1", secret[1:])
	require.EqualError(t, err, "label key k1: the secret has 31 bytes, at least 32 are required")
}

// The codes are public: they are those of registered companies.
func TestUSCC(t *testing.T) {
	for _, code := range []string{"9144030071526726XG", "914403001922038216", "91330100799655058B", "91110000802100433B"} {
		require.NoError(t, label.CheckUSCC(code), code)
		require.NoError(t, label.CheckProducer("0011"+code+"20000"), code)
		for i := range code { // GB 32100 detects each change of one character
			for _, c := range "0123456789ABCDEFGHJKLMNPQRTUWXY" {
				if byte(c) != code[i] {
					require.Error(t, label.CheckUSCC(code[:i]+string(c)+code[i+1:]), "%s at %d: %c", code, i, c)
				}
			}
		}
	}
	for code, want := range map[string]string{
		"":                    "has 0 characters",
		"9144030071526726X":   "has 17 characters",
		"9144030071526726xG":  "character 17 must be",
		"9144O30071526726XG":  "character 5 must be",
		"9144030071526726X ":  "check digit",
		"914403001922038216 ": "has 19 characters",
	} {
		require.ErrorContains(t, label.CheckUSCC(code), want, code)
	}
}

func TestProducer(t *testing.T) {
	require.NoError(t, label.CheckProducer(producer))
	require.Equal(t, uscc, label.ProducerUSCC(producer))
	require.Empty(t, label.ProducerUSCC("x"))
	for code, want := range map[string]string{
		"1" + producer[1:]:                 "must begin with 0011",
		"0021" + producer[4:]:              "must begin with 0011",
		producer[:22] + "3" + "0A0Z":       "character 23",
		producer[:23] + "0a0Z":             "last 4 characters",
		producer[:23] + "0-0Z":             "last 4 characters",
		producer + "0":                     "has 28 characters",
		"0011" + "9144030071526726XX10A0Z": "check digit",
	} {
		require.ErrorContains(t, label.CheckProducer(code), want, code)
	}
}

func FuzzVerify(f *testing.F) {
	k := newKey(f, "k1")
	signed := newLabel(f).Sign(k)
	f.Add("1", producer, "hub-0197", signed.ReservedCode1)
	f.Add("1", producer, "", "v1.k1.")
	f.Fuzz(func(t *testing.T, kind, producer, id, code string) {
		l := label.Label{Label: label.Certainty(kind), ContentProducer: producer, ProduceID: id, ReservedCode1: code}
		if l.Verify(k) == nil {
			again := l.Sign(k)
			require.Equal(t, again.ReservedCode1, code, "exactly one signature is valid")
		}
		require.NoError(t, l.Sign(k).Verify(k))
	})
}
