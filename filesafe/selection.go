package filesafe

import (
	"context"
	"io/fs"
	"strings"
)

// textSize is how many bytes of names are held together at most.
const textSize = 16 << 10

// selection collects the first keys of a directory that come after level.last.
type selection struct {
	lister *lister
	level  *level
	names  strings.Builder
	cut    bool // keys of the directory were dropped, all of them after limit
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
			s.keep(name, tellOther)
		}
		return true
	}
	if l.half != others {
		s.keep(name, tellDir)
	}
	if l.depth > s.level.depth {
		s.keep(name, enterDir)
	}
	return true
}

func (s *selection) keep(name []byte, kind kind) {
	if s.level.last.name != "" || s.cut {
		k := key{name: string(name), kind: kind}
		if s.level.last.name != "" && s.lister.half.compare(k, s.level.last) <= 0 || s.cut && s.lister.half.compare(k, s.limit) > 0 {
			return
		}
	}
	work := s.lister.scratch
	if work.keys = append(work.keys, key{s.text(name), kind}); len(work.keys) >= 2*maxKeys {
		kept := copy(work.keys, s.first())
		clear(work.keys[kept:]) // lets go of the names
		work.keys = work.keys[:kept]
	}
}

// text makes a string of a name: as a part of a longer one, as long as no name is dropped and all of it is needed.
func (s *selection) text(name []byte) string {
	if s.cut || len(name) > textSize/8 {
		return string(name)
	}
	if s.names.Cap()-s.names.Len() < len(name) {
		size := max(2*s.names.Cap(), 256, len(name))
		s.names = strings.Builder{} // what the old one holds belongs to its names
		s.names.Grow(min(size, textSize))
	}
	at := s.names.Len()
	s.names.Write(name)
	return s.names.String()[at:]
}

// first answers the keys that there is room for, in their order.
func (s *selection) first() []key {
	work := s.lister.scratch
	keys := work.sorted(s.lister.half, maxKeys)
	if len(work.keys) > maxKeys {
		s.cut, s.limit = true, keys[maxKeys-1]
	}
	return keys
}
