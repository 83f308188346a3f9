package identity

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"strings"
	"sync"
)

// The list has the 10,000 most common passwords of at least 8 characters, in lower case. They are
// the first ones of passwords.json of the npm package @zxcvbn-ts/language-common 4.1.3, which is
// sorted by frequency: Copyright (c) 2012-2016 Dan Wheeler and Dropbox, Inc., (c) 2021 @zxcvbn-ts,
// MIT License.
//
//go:embed passwords.txt.gz
var commonList []byte

// commonPasswords reads the list when the first password is set.
var commonPasswords = sync.OnceValue(func() map[string]bool {
	list, err := gzip.NewReader(bytes.NewReader(commonList))
	var text []byte
	if err == nil {
		text, err = io.ReadAll(list)
	}
	if err != nil {
		panic(err) // the list is part of the program
	}
	all := map[string]bool{}
	for _, word := range strings.Fields(string(text)) {
		all[word] = true
	}
	return all
})

// isCommon reports whether a password is on the list, in any letter case and without the white
// space around it.
func isCommon(password string) bool {
	return commonPasswords()[strings.ToLower(strings.TrimSpace(password))]
}
