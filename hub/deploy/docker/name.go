package docker

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"
)

// name is the name of a container: agenthost-KEY.UID.REVISION, with ".stop" or ".cut" and a time in
// milliseconds once it was requested to end. A former version had another beginning.
//
// Everything that changes is in the name, because the engine replaces it atomically, and resolves
// it in each call: a call with a former name fails.
type name struct {
	Base string
	Step step
	At   time.Time
}

// step is how far the end of a runtime has come.
type step string

const (
	stepNone step = ""
	stepStop step = "stop" // it drains
	stepCut  step = "cut"  // its runs are cancelled
)

const namePrefix = "agenthost-"

// newName returns the name with which the container of a revision is created. Only one call can
// create it.
func newName(ref deploy.Ref, revision int64) name {
	return name{Base: fmt.Sprintf("%s.%d", volumeName(ref), revision)}
}

func (n name) String() string {
	if n.Step == stepNone {
		return n.Base
	}

	return fmt.Sprintf("%s.%s.%d", n.Base, n.Step, n.At.UnixMilli())
}

var nameForm = regexp.MustCompile(`^/?(.+?)(?:\.(stop|cut)\.(\d{1,15}))?$`)

// parseName returns the name of a container of the driver.
func parseName(text string) name {
	parts := nameForm.FindStringSubmatch(text)
	if parts == nil {
		return name{Base: text}
	}

	n := name{Base: parts[1], Step: step(parts[2])}
	if n.Step != stepNone {
		at, _ := strconv.ParseInt(parts[3], 10, 64) // it has only digits
		n.At = time.UnixMilli(at)
	}

	return n
}
