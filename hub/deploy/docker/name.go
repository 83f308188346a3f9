package docker

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// name is the name of a container: agenthost-KEY.REVISION.FENCE for a runtime, with ".stop" or
// ".cut" and a time in milliseconds once it was requested to end, and
// agenthost-KEY.claim.OWNER.FENCE for the record of the claim, with the owner in hexadecimal.
//
// Everything that changes is in the name, because the engine replaces it atomically, and resolves
// it in each call: a call with a former name fails.
type name struct {
	Key      string
	Claim    bool
	Owner    string // of a claim
	Revision int64  // of a runtime
	Fence    int64
	Step     step // of a runtime
	At       time.Time
}

// step is how far the end of a runtime has come.
type step string

const (
	stepNone step = ""
	stepStop step = "stop" // it drains
	stepCut  step = "cut"  // its runs are cancelled
)

const namePrefix = "agenthost-"

// firstClaim is the name with which a record of a claim is created. Only one call can create it.
func firstClaim(key string) name { return name{Key: key, Claim: true} }

func (n name) String() string {
	switch {
	case n.Claim && n.Fence == 0 && n.Owner == "":
		return namePrefix + n.Key + ".claim"
	case n.Claim:
		return fmt.Sprintf("%s%s.claim.%s.%d", namePrefix, n.Key, hex.EncodeToString([]byte(n.Owner)), n.Fence)
	}

	text := fmt.Sprintf("%s%s.%d.%d", namePrefix, n.Key, n.Revision, n.Fence)
	if n.Step != stepNone {
		text += fmt.Sprintf(".%s.%d", n.Step, n.At.UnixMilli())
	}

	return text
}

// parseName reports whether text is the name of a container of the driver.
func parseName(text string) (n name, ok bool) {
	text, ok = strings.CutPrefix(strings.TrimPrefix(text, "/"), namePrefix)
	parts := strings.Split(text, ".")
	if !ok || len(parts) < 2 || !keyPattern.MatchString(parts[0]) {
		return n, false
	}

	n.Key = parts[0]
	if parts[1] == "claim" {
		return parseClaim(n, parts[2:])
	}

	if len(parts) != 3 && len(parts) != 5 {
		return n, false
	}

	revision, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return n, false
	}

	n.Revision = revision
	if n.Fence, err = strconv.ParseInt(parts[2], 10, 64); err != nil {
		return n, false
	}

	if len(parts) == 3 {
		return n, true
	}

	at, err := strconv.ParseInt(parts[4], 10, 64)
	n.Step, n.At = step(parts[3]), time.UnixMilli(at)
	return n, err == nil && (n.Step == stepStop || n.Step == stepCut)
}

func parseClaim(n name, parts []string) (name, bool) {
	n.Claim = true
	if len(parts) == 0 {
		return n, true
	}

	if len(parts) != 2 {
		return n, false
	}

	owner, err := hex.DecodeString(parts[0])
	if err != nil {
		return n, false
	}

	n.Owner = string(owner)
	n.Fence, err = strconv.ParseInt(parts[1], 10, 64)
	return n, err == nil
}
