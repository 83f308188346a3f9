package builtin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/collapse"
	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/strikethrough"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"github.com/seed93082962/agenthost/internal/pattern"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const stepsPerCheck = 1 << 10 // tokens or elements between two checks of the context

// webPage is a page as Markdown. More means that only its beginning was read.
type webPage struct {
	title string
	text  string
	more  bool
}

// markdown converts a page to Markdown. Links are resolved relative to at.
//
// html.Parse opens all formatting again in each paragraph: a page of 64 KiB takes 1 GiB and 19 s.
// The converter takes 3 GiB for a table of 1 MiB with wide cells. Therefore the tree is built here,
// within the limits of [tree], and its text is escaped already.
func markdown(ctx context.Context, source, at string) (webPage, error) {
	t := newTree(at)
	z := html.NewTokenizer(strings.NewReader(source))
	for n := 0; ; n++ {
		if n%stepsPerCheck == 0 && ctx.Err() != nil {
			return webPage{}, context.Cause(ctx)
		}

		if t.size >= maxNodes {
			text, err := render(ctx, t.open[0])
			return webPage{title: t.title, text: text, more: true}, err
		}

		switch z.Next() {
		case html.ErrorToken:
			if err := z.Err(); !errors.Is(err, io.EOF) {
				return webPage{}, fmt.Errorf("read HTML: %w", err)
			}

			t.flush()
			text, err := render(ctx, t.open[0])
			return webPage{title: t.title, text: text}, err
		case html.TextToken:
			t.characters(z.Text())
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			t.start(atom.Lookup(name), attributes(z, more))
		case html.EndTagToken:
			name, _ := z.TagName()
			t.end(atom.Lookup(name))
		}
	}
}

// attributes returns the attributes that the tree uses. The first of two with one name counts.
func attributes(z *html.Tokenizer, more bool) map[string]string {
	var all map[string]string
	for more {
		var key, value []byte
		key, value, more = z.TagAttr()
		switch string(key) {
		case "href", "src", "alt", "class", "start", "colspan", "rowspan":
			if all == nil {
				all = map[string]string{}
			}

			if all[string(key)] == "" {
				all[string(key)] = string(value)
			}
		}
	}

	return all
}

// render converts a tree to Markdown.
func render(ctx context.Context, root *html.Node) (string, error) {
	c := converter.NewConverter(converter.WithEscapeMode(converter.EscapeModeDisabled), converter.WithPlugins(
		base{},
		commonmark.NewCommonmarkPlugin(commonmark.WithListEndComment(false),
			commonmark.WithLinkEmptyContentBehavior(commonmark.LinkBehaviorSkip)),
		strikethrough.NewStrikethroughPlugin(),
		table.NewTablePlugin(table.WithHeaderPromotion(true), table.WithNewlineBehavior(table.NewlineBehaviorPreserve),
			table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal)),
	))
	steps := 0
	c.Register.Renderer(func(converter.Context, converter.Writer, *html.Node) converter.RenderStatus {
		if steps++; steps%stepsPerCheck == 0 && ctx.Err() != nil {
			return converter.RenderSuccess
		}

		return converter.RenderTryNext
	}, converter.PriorityEarly)
	text, err := c.ConvertNode(root)
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}

	return string(text), err
}

var (
	blankLines = pattern.Compile(`\n[ \n]*\n`)
	cellBreaks = pattern.Compile(`(?:<br />){2,}`) // the ends of blocks in a cell
)

// base is the plugin that the others require: which elements are blocks, and white space. The one
// of the library also rewrites each "<", and removes elements that are not in a tree.
type base struct{}

func (base) Name() string { return "base" }

func (base) Init(c *converter.Converter) error {
	for name, k := range kinds {
		if k >= block {
			c.Register.TagType(name.String(), converter.TagTypeBlock, converter.PriorityStandard)
		}
	}

	c.Register.PreRenderer(func(_ converter.Context, root *html.Node) {
		collapse.Collapse(root, &collapse.DomFuncs{IsBlockNode: func(n *html.Node) bool { return kinds[atom.Lookup([]byte(n.Data))] >= block }})
	}, converter.PriorityLate)
	c.Register.PostRenderer(func(_ converter.Context, text []byte) []byte {
		text = blankLines().ReplaceAll(bytes.TrimSpace(text), []byte("\n\n"))
		return cellBreaks().ReplaceAll(text, []byte("<br />"))
	}, converter.PriorityStandard)
	return nil
}

// elementRole is the role of an element in the tree.
type elementRole int

const (
	transparent elementRole = iota // not in the tree: only the text of its content is
	unread                         // not in the tree, and neither is its content
	inline
	block
	leaf // a block that ends at the next block
	list
	item
	heading // of a table
	grid    // a table
	row
	cell
)

// kinds has the elements of a tree and those whose content is not text of the page.
var kinds = kindsOf(map[elementRole][]atom.Atom{
	unread: {
		atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Iframe, atom.Object, atom.Svg, atom.Math, atom.Canvas,
		atom.Select, atom.Textarea, atom.Dialog, atom.Noembed, atom.Noframes, atom.Audio, atom.Video,
	},
	inline:  {atom.A, atom.Strong, atom.Em, atom.Del, atom.Code},
	block:   {atom.Div},
	leaf:    {atom.P, atom.Pre, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6},
	list:    {atom.Ul, atom.Ol, atom.Blockquote},
	item:    {atom.Li},
	heading: {atom.Caption},
	grid:    {atom.Table},
	row:     {atom.Tr},
	cell:    {atom.Td},
})

func kindsOf(names map[elementRole][]atom.Atom) map[atom.Atom]elementRole {
	all := map[atom.Atom]elementRole{}
	for k, list := range names {
		for _, name := range list {
			all[name] = k
		}
	}

	return all
}

// nameOf returns the name in a tree of an element of a page.
func nameOf(a atom.Atom) atom.Atom {
	switch a {
	case atom.B:
		return atom.Strong
	case atom.I:
		return atom.Em
	case atom.S, atom.Strike:
		return atom.Del
	case atom.Kbd, atom.Samp, atom.Tt:
		return atom.Code
	case atom.Th:
		return atom.Td
	case atom.Address, atom.Article, atom.Aside, atom.Body, atom.Center, atom.Dd, atom.Details, atom.Dl, atom.Dt,
		atom.Fieldset, atom.Figcaption, atom.Figure, atom.Footer, atom.Form, atom.Header, atom.Hgroup, atom.Legend, atom.Main,
		atom.Menu, atom.Nav, atom.Search, atom.Section, atom.Summary:
		return atom.Div
	}

	return a
}
