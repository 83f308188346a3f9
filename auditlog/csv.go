package auditlog

import (
	"encoding/hex"
	"strconv"
	"strings"
	"unicode/utf8"
)

// csvFirst names the columns, which are the fields of an entry's JSON.
const csvFirst = "id,tenantId,userId,userName,category,action,targetType,targetId,targetName,status,detail,remoteIp,userAgent,createdAt,hash\r\n"

// appendCSV appends a line as RFC 4180 has it.
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

// formulas are what spreadsheets take for the beginning of one, some in full width too, and the ' that prevents it.
const formulas = "=+-@\t\r\n＝＋－＠'"

// harmless makes text of what a spreadsheet would run: texts of an entry come from anyone who can reach a login form. A '
// at the front gets one more, so that whoever takes one away has the text as it was.
func harmless(s string) string {
	first, n := utf8.DecodeRuneInString(strings.TrimLeft(s, " "))
	if n > 0 && strings.ContainsRune(formulas, first) {
		return "'" + s
	}
	return s
}
