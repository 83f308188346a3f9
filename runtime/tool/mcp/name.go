package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

// hashLength is the number of characters of a hash in a name.
const hashLength = 8

var (
	legalName = regexp.MustCompile(`^[A-Za-z0-9_./-]{1,128}$`) // of the protocol, for a tool
	modelName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)    // with the prefix of the server
)

var modelCharacters = strings.NewReplacer(".", "_", "/", "_")

// mappedName returns a name that models accept: with _ for . and /, and shortened with a hash where
// it is too long. The prefix of the server is unchanged, since permission rules match it. It
// returns "" if there is no room for a hash.
func mappedName(server, tool string) string {
	name := prefix(server) + modelCharacters.Replace(tool)
	if len(name) > maxName {
		return hashedName(server, tool)
	}
	return name
}

// hashedName is the mapped name with a hash of the tool's own name, so that no other tool has it.
func hashedName(server, tool string) string {
	room := maxName - len(prefix(server)) - hashLength - 1
	if room < 1 {
		return ""
	}
	sum := sha256.Sum256([]byte(tool))
	short := modelCharacters.Replace(tool)
	return prefix(server) + short[:min(len(short), room)] + "_" + hex.EncodeToString(sum[:])[:hashLength]
}
