package auditlog

import (
	"encoding/hex"
	"strconv"
	"strings"
	"unicode/utf8"
)

// csvFirst is the header line: the fields of an entry's JSON.
const csvFirst = "id,tenantId,userId,userName,category,action,targetType,targetId,targetName,status,detail,remoteIp,userAgent,createdAt,hash\r\n"

// appendCSV appends a line in the format of RFC 4180.
func (e Entry) appendCSV(b []byte) ([]byte, error) {
	detail := "null"
	if e.Detail != nil {
		detail = string(e.Detail)
	}
	for i, s := range [...]string{
		strconv.FormatUint(e.ID, 10), e.TenantID, e.UserID, e.UserName, e.Category, e.Action, e.TargetType, e.TargetID, e.TargetName,
		string(e.Status), detail, e.RemoteIP, e.UserAgent, e.CreatedAt.UTC().Format(timeLayout), hex.EncodeToString(e.Hash),
	} {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(b, strings.ReplaceAll(harmless(s), `"`, `""`)...)
		b = append(b, '"')
	}
	return append(b, "\r\n"...), nil
}

// formulas are the characters at which spreadsheets recognize a formula, some also in full width,
// and the ' that prevents it.
const formulas = "=+-@\t\r\n＝＋－＠'"

// harmless prevents a spreadsheet from running a text as a formula: anyone who can reach a login
// form can write into an entry. A text that begins with ' also gets one more, so that removing one
// restores every text.
func harmless(s string) string {
	first, n := utf8.DecodeRuneInString(strings.TrimLeft(s, " "))
	if n > 0 && strings.ContainsRune(formulas, first) {
		return "'" + s
	}
	return s
}
