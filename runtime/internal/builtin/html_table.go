package builtin

import (
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// columns are the columns of an open table.
type columns struct {
	next    int // of the next cell in the open row
	most    int // cells of a row
	rows    int
	covered []int // by column: rows, with the open one, in which a cell before covers it
}

// pushCell opens a cell or a row of the open table.
func (t *tree) pushCell(name atom.Atom, attrs map[string]string) bool {
	i := t.find(atom.Table)
	if i == 0 {
		return t.push(atom.Div, nil)
	}

	if name == atom.Tr || t.find(atom.Tr) < i {
		t.pop(i + 1)
		t.append(element(atom.Tr))
		if name == atom.Tr {
			return true
		}
	}

	t.pop(i + 2)
	t.cover()
	at := t.tables[len(t.tables)-1]
	if at.next >= maxColumns || at.next*at.rows > maxNodes {
		return false
	}

	wide, high := span(attrs["colspan"]), span(attrs["rowspan"])
	for c := at.next; c < min(at.next+wide, maxColumns); c++ {
		for len(at.covered) <= c {
			at.covered = append(at.covered, 0)
		}

		at.covered[c] = high
	}

	at.covered[at.next]--
	at.next++
	t.append(element(atom.Td))
	return true
}

// cover appends the cells at the next column that other cells cover.
func (t *tree) cover() {
	at := t.tables[len(t.tables)-1]
	for ; at.next < len(at.covered) && at.covered[at.next] > 0; at.next++ {
		at.covered[at.next]--
		t.append(element(atom.Td))
		t.pop(len(t.open) - 1)
	}
}

// layOut marks the open tables as layout of the page: Markdown has no blocks in cells.
func (t *tree) layOut() {
	for _, n := range t.open {
		if n.DataAtom == atom.Table && n.Attr == nil {
			n.Attr = []html.Attribute{{Key: "role", Val: "presentation"}}
		}
	}
}

func (t *tree) lists() int {
	var n int
	for _, e := range t.open {
		if kinds[e.DataAtom] == list {
			n++
		}
	}

	return n
}
