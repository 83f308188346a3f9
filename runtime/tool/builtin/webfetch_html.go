package builtin

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// A page is anybody's. Each of these bounds keeps the conversion from taking more than a few times what its size would
// explain; real pages come nowhere near.
const (
	maxIndents = 8      // lists and quotes within each other: each level copies all that is in it
	maxCells   = 50_000 // of one table, when its rows are filled up
	maxSpan    = 10_000 // cells that all spans of a page add
	maxTitle   = 300    // bytes

	conversionTime = 5 * time.Second
)

var errComplicated = errors.New("the page is too complicated to be read as text")

type webPage struct{ title, text string }

// markdown converts a page. Parsing ends at a depth of 512 by itself, which is what bounds the stack.
func markdown(ctx context.Context, source, at string) (webPage, error) {
	doc, err := html.Parse(strings.NewReader(source))
	if err != nil {
		return webPage{}, fmt.Errorf("read HTML: %w", err)
	}
	pr := pruner{spans: maxSpan}
	pr.prune(doc, 0)
	resolve(doc, at)

	within, cancel := context.WithTimeoutCause(ctx, conversionTime, errComplicated)
	defer cancel()
	conv := converter.NewConverter(converter.WithPlugins(
		base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(),
		table.NewTablePlugin(table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal)),
	))
	conv.Register.Renderer(func(converter.Context, converter.Writer, *html.Node) converter.RenderStatus {
		if within.Err() != nil {
			return converter.RenderSuccess // of nothing: the rest is passed over
		}
		return converter.RenderTryNext
	}, converter.PriorityEarly)
	text, err := conv.ConvertNode(doc)
	switch {
	case within.Err() != nil:
		return webPage{}, context.Cause(within)
	case err != nil:
		return webPage{}, fmt.Errorf("convert HTML: %w", err)
	}
	return webPage{title: pr.title, text: string(text)}, nil
}

// pruner takes out of a page what is not for reading, and what would make it more than its size.
type pruner struct {
	title string
	spans int // cells that spans may yet add
}

func (p *pruner) prune(n *html.Node, indents int) {
	switch n.DataAtom {
	case atom.Ul, atom.Ol, atom.Blockquote, atom.Table, atom.Pre, atom.Dl:
		if indents++; indents > maxIndents {
			rename(n, atom.Div)
		}
	case atom.Li:
		if indents >= maxIndents {
			rename(n, atom.Div)
		}
	case atom.Td, atom.Th:
		p.span(n)
	case atom.Title:
		if p.title == "" && n.FirstChild != nil {
			p.title, _ = clip(strings.Join(strings.Fields(n.FirstChild.Data), " "), maxTitle)
			p.title = strings.ReplaceAll(p.title, "\n", " ")
		}
	}
	for child := n.FirstChild; child != nil; {
		next := child.NextSibling
		if unread(child) {
			n.RemoveChild(child)
		} else {
			p.prune(child, indents)
		}
		child = next
	}
	if n.DataAtom == atom.Table && filled(n) > maxCells {
		flatten(n)
	}
}

func unread(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Iframe, atom.Object, atom.Svg, atom.Math, atom.Canvas,
		atom.Select, atom.Textarea, atom.Input, atom.Dialog:
		return true
	}
	return n.Type == html.CommentNode
}

func rename(n *html.Node, to atom.Atom) { n.DataAtom, n.Data = to, to.String() }

// span drops the spans of a cell that would add more than there is left.
func (p *pruner) span(cell *html.Node) {
	cells := 1
	for _, a := range cell.Attr {
		if a.Key == "colspan" || a.Key == "rowspan" {
			if n, err := strconv.Atoi(a.Val); err == nil && n > 0 {
				cells *= min(n, maxSpan+1)
			}
		}
	}
	if p.spans -= cells - 1; p.spans >= 0 {
		return
	}
	p.spans += cells - 1
	cell.Attr = nil
}

// filled is how many cells a table has when each row is as long as the longest, those of tables inside counted too.
func filled(t *html.Node) int {
	rows, longest := 0, 0
	for n := range t.Descendants() {
		if n.DataAtom != atom.Tr {
			continue
		}
		rows++
		cells := 0
		for cell := range n.ChildNodes() {
			if cell.DataAtom == atom.Td || cell.DataAtom == atom.Th {
				cells++
			}
		}
		longest = max(longest, cells)
	}
	return rows * longest
}

// flatten makes lines of a table.
func flatten(t *html.Node) {
	rename(t, atom.Div)
	for n := range t.Descendants() {
		switch n.DataAtom {
		case atom.Tr, atom.Tbody, atom.Thead, atom.Tfoot, atom.Caption:
			rename(n, atom.Div)
		case atom.Td, atom.Th:
			rename(n, atom.Span)
		}
	}
}

// resolve makes links whole, relative to where the page is, and leaves pictures in data: URLs out, which are no text.
func resolve(doc *html.Node, at string) {
	page, err := url.Parse(at)
	if err != nil {
		return
	}
	for n := range doc.Descendants() {
		if n.DataAtom != atom.A && n.DataAtom != atom.Img && n.DataAtom != atom.Base {
			continue
		}
		for i, a := range n.Attr {
			if a.Key != "href" && a.Key != "src" {
				continue
			}
			if strings.HasPrefix(strings.ToLower(a.Val), "data:") {
				n.Attr[i].Val = ""
			} else if u, err := page.Parse(strings.TrimSpace(a.Val)); err == nil {
				n.Attr[i].Val = u.String()
				if n.DataAtom == atom.Base && a.Key == "href" {
					page = u
				}
			}
		}
	}
}
