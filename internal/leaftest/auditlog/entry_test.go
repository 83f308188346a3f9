package auditlog_test

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
)

func TestEntryJSON(t *testing.T) {
	t.Parallel()
	e := auditlog.Entry{
		ID: math.MaxUint64, TenantID: "t", UserID: "u", UserName: "王", Category: "user", Action: "user.update_role", TargetType: "user", TargetID: "x",
		TargetName: "bob", Status: auditlog.Partial, Detail: json.RawMessage(`{"role":{"from":"\u003ca","to":"b"}}`), RemoteIP: "::1", UserAgent: "curl",
		CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 600000000, time.FixedZone("", 3600)), Hash: []byte{0xab},
	}
	const fields = `"id":"18446744073709551615","tenantId":"t","userId":"u","userName":"王","category":"user","action":"user.update_role","targetType":"user",` +
		`"targetId":"x","targetName":"bob","status":"partial","detail":{"role":{"from":"\u003ca","to":"b"}},"remoteIp":"::1","userAgent":"curl","createdAt":"2026-01-02T02:04:05.600000Z"`
	text, err := json.Marshal(e)
	require.NoError(t, err)
	requireText(t, "{"+fields+"}", string(text))
	line, err := e.AppendNDJSON([]byte("> "))
	require.NoError(t, err)
	require.Equal(t, "> {"+fields+`,"hash":"ab"}`+"\n", string(line))

	var back auditlog.Entry
	require.NoError(t, json.Unmarshal(text, &back))
	e.CreatedAt, e.Hash = e.CreatedAt.UTC(), nil
	require.Equal(t, e, back)

	e.Hash = []byte{0xab}
	require.NoError(t, json.Unmarshal(line[2:], &back))
	require.Equal(t, e, back, "a line of an export has the hash")
	require.ErrorContains(t, json.Unmarshal([]byte(`{"id":"1","hash":"x"}`), &back), "decode audit entry")
	require.Error(t, json.Unmarshal([]byte(`{"id":1}`), &back))
	require.NoError(t, json.Unmarshal([]byte(`{"id":"1","detail":null}`), &back))
	require.Nil(t, back.Detail)

	text, err = json.Marshal(auditlog.Entry{CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)})
	require.NoError(t, err)
	require.Contains(t, string(text), `"detail":null,`)
	require.Contains(t, string(text), `"createdAt":"2026-01-02T03:04:05.000000Z"`)
}

// The hash must never change, because existing logs could no longer be verified. These two were
// computed by a program in another language from the text of the package comment.
func TestSumIsFixed(t *testing.T) {
	t.Parallel()
	at := time.UnixMicro(1767323045600001)
	first := auditlog.Entry{ID: 1, TenantID: "default", UserID: "u-1", UserName: "王小明", Category: "auth", Action: "auth.login", TargetType: "user", TargetID: "u-1",
		TargetName: "王小明", Status: auditlog.Success, RemoteIP: "192.0.2.7", UserAgent: "curl/8", CreatedAt: at}
	second := auditlog.Entry{ID: 2, TenantID: "default", Category: "user", Action: "user.update_role", Status: auditlog.Failure,
		Detail: json.RawMessage(`{"role":{"from":"member","to":"admin"}}`), CreatedAt: at.Add(time.Second)}
	require.Equal(t, "a7d3d6cd5d527e864c90267e6dc1509336afbb6c0156c55d0185266cef32574f", hex.EncodeToString(first.Sum(nil)))
	require.Equal(t, first.Sum(nil), first.Sum(make([]byte, 32)))
	require.Equal(t, "589722419403f2dc752c6bd07e9aecaa48bedd37d80bb2550c279d50f0d6ca2e", hex.EncodeToString(second.Sum(first.Sum(nil))))
}

func TestSumDependsOnEveryField(t *testing.T) {
	t.Parallel()
	whole := auditlog.Entry{ID: 1, TenantID: "a", UserID: "b", UserName: "c", Category: "d", Action: "e", TargetType: "f", TargetID: "g", TargetName: "h",
		Status: "i", Detail: json.RawMessage(`{}`), RemoteIP: "j", UserAgent: "k", CreatedAt: begin}
	seen := map[string]string{string(whole.Sum(nil)): "nothing", string(whole.Sum(whole.Sum(nil))): "the hash before"}
	require.Len(t, seen, 2)
	for name, change := range map[string]func(*auditlog.Entry){
		"id":         func(e *auditlog.Entry) { e.ID++ },
		"tenant":     func(e *auditlog.Entry) { e.TenantID = "" },
		"user id":    func(e *auditlog.Entry) { e.UserID = "" },
		"user name":  func(e *auditlog.Entry) { e.UserName = "" },
		"category":   func(e *auditlog.Entry) { e.Category = "" },
		"action":     func(e *auditlog.Entry) { e.Action = "" },
		"type":       func(e *auditlog.Entry) { e.TargetType = "" },
		"target":     func(e *auditlog.Entry) { e.TargetID = "" },
		"name":       func(e *auditlog.Entry) { e.TargetName = "" },
		"status":     func(e *auditlog.Entry) { e.Status = "" },
		"detail":     func(e *auditlog.Entry) { e.Detail = nil },
		"address":    func(e *auditlog.Entry) { e.RemoteIP = "" },
		"agent":      func(e *auditlog.Entry) { e.UserAgent = "" },
		"time":       func(e *auditlog.Entry) { e.CreatedAt = e.CreatedAt.Add(time.Microsecond) },
		"a boundary": func(e *auditlog.Entry) { e.TenantID, e.UserID = "", "ab" },
	} {
		e := whole
		change(&e)
		require.NotContains(t, seen, string(e.Sum(nil)), name)
		seen[string(e.Sum(nil))] = name
	}
}
