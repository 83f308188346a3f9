package builtin

import (
	"bytes"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/seed93082962/agenthost/internal/excerpt"
)

const (
	maxNodes   = 40_000 // of a tree; the rest of the page is not read
	maxDepth   = 40     // open elements; deeper ones are ignored, their text is not
	maxLists   = 8      // open lists and quotes: each indents all lines in it
	maxColumns = 100    // cells of a row; further ones are ignored, their text is not
)

// tree builds the tree of a page from its tags, at a cost in proportion to the size of the page. A
// start tag opens an element and the elements that must be around it, and closes those that end
// there.
type tree struct {
	open    []*html.Node      // from the root on
	size    int               // nodes
	ignored map[atom.Atom]int // open elements that are not in the tree, for their end tags
	text    bytes.Buffer      // since the last tag of the tree
	begun   bool              // the current line has text
	tables  []*columns        // of the open tables

	title    string
	inTitle  bool
	skipped  atom.Atom // the outermost open element that is not read
	skipping int       // open elements of its name

	base     *url.URL // nil: links stay as they are
	based    bool     // by a base element, of which the first counts
	linkWork int
}

func newTree(at string) *tree {
	t := &tree{open: []*html.Node{element(atom.Div)}, ignored: map[atom.Atom]int{}, linkWork: maxLinks}
	if base, err := url.Parse(at); err == nil && len(at) <= maxLinkURL {
		t.base = base
	}

	return t
}

func element(name atom.Atom, attrs ...html.Attribute) *html.Node {
	return &html.Node{Type: html.ElementNode, DataAtom: name, Data: name.String(), Attr: attrs}
}

// find returns the index of the innermost open element with one of the names, or 0.
func (t *tree) find(names ...atom.Atom) int {
	for i, n := range slices.Backward(t.open[1:]) {
		if slices.Contains(names, n.DataAtom) {
			return i + 1
		}
	}

	return 0
}

func (t *tree) characters(text []byte) {
	switch {
	case t.skipped != 0:
	case t.inTitle:
		if t.title == "" {
			t.title, _ = excerpt.Ends(strings.Join(strings.Fields(string(text)), " "), maxTitle)
			t.title = strings.ReplaceAll(t.title, "\n", " ")
		}
	default:
		t.text.Write(text)
	}
}

func (t *tree) start(a atom.Atom, attrs map[string]string) {
	if t.skipped != 0 {
		if a == t.skipped {
			t.skipping++
		}

		return
	}

	name := nameOf(a)
	switch kinds[name] {
	case unread:
		t.skipped, t.skipping = a, 1
	case transparent:
		t.startOther(a, attrs)
	default:
		t.flush()
		if !t.push(name, attrs) {
			t.ignored[name]++
		}
	}
}

// startOther handles elements that have no content in the tree.
func (t *tree) startOther(a atom.Atom, attrs map[string]string) {
	switch a {
	case atom.Title:
		t.inTitle = true
	case atom.Base:
		t.setBase(attrs["href"])
	case atom.Br:
		if t.find(atom.Code, atom.Pre) > 0 {
			t.text.WriteByte('\n')
		} else if t.flush(); t.begun {
			t.append(element(atom.Br))
			t.begun = false
		}
	case atom.Hr:
		t.flush()
		t.closeLeaf()
		t.append(element(atom.Hr))
	case atom.Img:
		if src := t.resolve(attrs["src"]); src != "" && t.find(atom.Code, atom.Pre) == 0 {
			t.flush()
			t.append(element(atom.Img, html.Attribute{Key: "src", Val: src},
				html.Attribute{Key: "alt", Val: strings.Join(strings.Fields(attrs["alt"]), " ")}))
			t.begun = true
		}
	case atom.Thead, atom.Tbody, atom.Tfoot:
		if i := t.find(atom.Table); i > 0 {
			t.flush()
			t.pop(i + 1)
		}
	}
}

// push opens an element. It returns false if the element is not part of the tree.
func (t *tree) push(name atom.Atom, attrs map[string]string) bool {
	if i := t.find(atom.Pre, atom.Code); i > 0 {
		if t.inText(t.open[i], name, attrs) {
			return false
		}

		t.pop(i)
	}

	node := element(name)
	switch kinds[name] {
	case inline:
		i := t.find(name)
		if i > 0 && name != atom.A {
			return false
		}

		if i > 0 {
			t.pop(i)
		}

		if name == atom.A {
			href := t.resolve(attrs["href"])
			if href == "" {
				return false
			}

			node.Attr = []html.Attribute{{Key: "href", Val: href}}
		}
	case leaf:
		t.closeLeaf()
		if name != atom.P {
			t.layOut()
		}

		node.Attr = languageOf(attrs["class"])
	case list:
		t.closeLeaf()
		if t.lists() >= maxLists {
			return false
		}

		t.layOut()
		node.Attr = []html.Attribute{{Key: "start", Val: listStart(attrs["start"])}}
	case item:
		t.closeLeaf()
		t.layOut()
		if i := t.find(atom.Ul, atom.Ol, atom.Blockquote, atom.Td); kinds[t.open[i].DataAtom] == list && t.open[i].DataAtom != atom.Blockquote {
			t.pop(i + 1)
		} else if t.lists() >= maxLists {
			return false
		} else {
			t.append(element(atom.Ul))
		}
	case grid:
		t.closeLeaf()
		t.layOut()
	case row, cell:
		return t.pushCell(name, attrs)
	default:
		t.closeLeaf()
	}

	if len(t.open) > maxDepth {
		return false
	}

	t.append(node)
	if name == atom.Table {
		t.tables = append(t.tables, &columns{})
	}

	return true
}

// inText handles a start tag in a pre or code element, which contain only text. It returns false if
// the element ends there.
func (t *tree) inText(outer *html.Node, name atom.Atom, attrs map[string]string) bool {
	switch {
	case kinds[name] == inline:
		if name == atom.Code && outer.FirstChild == nil && len(outer.Attr) == 0 {
			outer.Attr = languageOf(attrs["class"])
		}

		return true
	case outer.DataAtom == atom.Pre && (name == atom.Div || name == atom.P): // a line, in some highlighters
		if outer.LastChild != nil && !strings.HasSuffix(outer.LastChild.Data, "\n") {
			t.text.WriteByte('\n')
		}

		return true
	}

	return false
}

// closeLeaf closes the open paragraph or heading, with what is open in it.
func (t *tree) closeLeaf() {
	if i := slices.IndexFunc(t.open, func(n *html.Node) bool { return kinds[n.DataAtom] == leaf }); i > 0 {
		t.pop(i)
	}
}

// append appends a node, with what it needs around it: an item in a list, a cell in a table. An
// element that can have content is open then.
func (t *tree) append(n *html.Node) {
	top, k := t.open[len(t.open)-1], kinds[n.DataAtom]
	switch {
	case kinds[top.DataAtom] == list && top.DataAtom != atom.Blockquote && k != item:
		t.append(element(atom.Li))
	case kinds[top.DataAtom] == grid && k != row && k != heading, kinds[top.DataAtom] == row && k != cell:
		t.pushCell(atom.Td, nil)
	}

	t.size++
	t.open[len(t.open)-1].AppendChild(n)
	if k != transparent {
		t.open = append(t.open, n)
	}

	if k >= block {
		t.begun = false
	}
}

// pop closes the open elements from an index on.
func (t *tree) pop(i int) {
	for len(t.open) > i {
		n := t.open[len(t.open)-1]
		switch kinds[n.DataAtom] {
		case row:
			t.cover()
			at := t.tables[len(t.tables)-1]
			if wider := at.next - at.most; wider > 0 { // the converter fills all rows
				t.size += wider * at.rows
				at.most = at.next
			} else {
				t.size -= wider
			}

			at.rows++
			at.next = 0
		case grid:
			if t.tables[len(t.tables)-1].most < 2 && n.Attr == nil {
				n.Attr = []html.Attribute{{Key: "role", Val: "presentation"}}
			}

			t.tables = t.tables[:len(t.tables)-1]
		}

		if kinds[n.DataAtom] >= block {
			t.begun = false
		}

		t.open = t.open[:len(t.open)-1]
	}
}

func (t *tree) end(a atom.Atom) {
	if t.skipped != 0 {
		if a == t.skipped {
			if t.skipping--; t.skipping == 0 {
				t.skipped = 0
			}
		}

		return
	}

	switch name := nameOf(a); {
	case a == atom.Title:
		t.inTitle = false
	case kinds[name] < inline:
	case t.ignored[name] > 0:
		t.ignored[name]--
	default:
		within := []atom.Atom{name, atom.Td}
		switch kinds[name] {
		case item:
			within = append(within, atom.Ul, atom.Ol)
		case row, cell:
			within = []atom.Atom{name, atom.Table}
		case grid:
			within = []atom.Atom{name}
		}

		if i := t.find(within...); i > 0 && t.open[i].DataAtom == name {
			t.flush()
			t.pop(i)
		}
	}
}

// flush appends the text since the last tag.
func (t *tree) flush() {
	text := t.text.Bytes()
	if len(text) == 0 {
		return
	}

	defer t.text.Reset()
	i := t.find(atom.Pre, atom.Code)
	if i == 0 && !t.begun && len(bytes.TrimSpace(text)) == 0 {
		return
	}

	switch {
	case i == 0:
		text = t.escaped(text)
	case t.open[i].DataAtom == atom.Pre:
		text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
		if t.open[i].FirstChild == nil {
			text = bytes.TrimLeft(text, "\n")
		}
	}

	t.append(&html.Node{Type: html.TextNode, Data: string(text)})
	t.begun = true
}
