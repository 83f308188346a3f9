package filesafe

import (
	"context"
	"io/fs"
	"strings"
)

// textSize is the largest number of bytes of names in one string.
const textSize = 16 << 10

// selection collects the first keys of a directory after level.last.
type selection struct {
	lister *lister
	level  *level
	names  strings.Builder
	cut    bool // keys after limit were dropped
	limit  key
	seen   int // entries
	err    error
}

func (s *selection) add(name []byte, typ fs.FileMode) bool {
	l := s.lister
	if s.seen++; s.seen%4096 == 0 && l.ctx.Err() != nil {
		s.err = l.stop(context.Cause(l.ctx))
		return false
	}
	if typ == unknownType {
		found, err := l.look.at(s.level.root, s.level.fd, string(name))
		if err != nil {
			return true
		}
		typ = found.mode.Type()
	}
	if typ != fs.ModeDir {
		if l.half != directories {
			s.addKey(name, listOther)
		}
		return true
	}
	if l.half != others {
		s.addKey(name, listDir)
	}
	if l.depth > s.level.depth {
		s.addKey(name, enterDir)
	}
	return true
}

func (s *selection) addKey(name []byte, kind kind) {
	if s.level.last.name != "" || s.cut {
		k := key{name: string(name), kind: kind}
		if s.level.last.name != "" && s.lister.half.compare(k, s.level.last) <= 0 || s.cut && s.lister.half.compare(k, s.limit) > 0 {
			return
		}
	}
	work := s.lister.scratch
	if work.keys = append(work.keys, key{s.text(name), kind}); len(work.keys) >= 2*maxKeys {
		kept := copy(work.keys, s.first())
		clear(work.keys[kept:]) // releases the names
		work.keys = work.keys[:kept]
	}
}

// text converts a name to a string. While all names are needed, they share larger strings.
func (s *selection) text(name []byte) string {
	if s.cut || len(name) > textSize/8 {
		return string(name)
	}
	if s.names.Cap()-s.names.Len() < len(name) {
		size := max(2*s.names.Cap(), 256, len(name))
		s.names = strings.Builder{} // the old string belongs to its names
		s.names.Grow(min(size, textSize))
	}
	at := s.names.Len()
	s.names.Write(name)
	return s.names.String()[at:]
}

// first returns the first keys, at most maxKeys, in order.
func (s *selection) first() []key {
	work := s.lister.scratch
	keys := work.sorted(s.lister.half, maxKeys)
	if len(work.keys) > maxKeys {
		s.cut, s.limit = true, keys[maxKeys-1]
	}
	return keys
}
