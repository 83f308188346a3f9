//go:build !(linux && (amd64 || arm64))

package groupsync

import "os"

// queue does not exist on this system.
type queue struct{}

func newQueue() *queue { return nil }

func (q *queue) close() {}

func (q *queue) sync([]*os.File, func(i int, err error)) (ok bool) { return false }
