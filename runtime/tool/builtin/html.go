package builtin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/seed93082962/agenthost/internal/excerpt"
)

// The conversion of a page is one pass over its tokens, without a tree: its time and memory are
// proportional to the size of the page. Open elements are counted, not stored, except for lists and
// quotes up to maxContainers.
const (
	maxTitle   = 300     // bytes
	maxLinkURL = 2 << 10 // bytes of a link in the text
	maxLinks   = 2 << 20 // bytes of the work to resolve the links of one page

	tokensPerCheck = 1 << 10 // between two checks of the context
)

type webPage struct{ title, text string }

// markdown converts a page to Markdown. Links are resolved relative to at.
func markdown(ctx context.Context, source, at string) (webPage, error) {
	c := converter{out: &blocks{}, linkWork: maxLinks}
	if base, err := url.Parse(at); err == nil && len(at) <= maxLinkURL {
		c.base = base
	}
	z := html.NewTokenizer(strings.NewReader(source))
	for n := 0; ; n++ {
		if n%tokensPerCheck == 0 && ctx.Err() != nil {
			return webPage{}, context.Cause(ctx)
		}
		switch z.Next() {
		case html.ErrorToken:
			if err := z.Err(); !errors.Is(err, io.EOF) {
				return webPage{}, fmt.Errorf("read HTML: %w", err)
			}
			c.endTable()
			return webPage{title: c.title, text: c.out.String()}, nil
		case html.TextToken:
			c.characters(z.Text())
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			c.start(atom.Lookup(name), attributes(z, more))
		case html.EndTagToken:
			name, _ := z.TagName()
			c.end(atom.Lookup(name))
		}
	}
}

// tag is a start tag with the attributes that the conversion uses.
type tag struct{ href, src, alt, class, start, colspan, rowspan string }

func attributes(z *html.Tokenizer, more bool) (t tag) {
	for more {
		var key, value []byte
		key, value, more = z.TagAttr()
		var field *string
		switch string(key) {
		case "href":
			field = &t.href
		case "src":
			field = &t.src
		case "alt":
			field = &t.alt
		case "class":
			field = &t.class
		case "start":
			field = &t.start
		case "colspan":
			field = &t.colspan
		case "rowspan":
			field = &t.rowspan
		default:
			continue
		}
		if *field == "" { // the first of two counts
			*field = string(value)
		}
	}
	return t
}

// converter holds the state between two tokens.
type converter struct {
	out     *blocks
	line    inline // of the current block or cell
	table   *table // nil outside of a table
	spanned int    // cells that spans added

	title    string
	base     *url.URL // nil: links stay as they are
	based    bool     // by a base element, of which the first counts
	linkWork int

	skipped   atom.Atom // the outermost open element whose content is omitted
	skipDepth int       // of open elements of its name
	inTitle   bool
	pre       *preformatted // nil outside of pre
	heading   int           // level, 0 outside of a heading
}

// unread are elements whose content is not text of the page.
func unread(a atom.Atom) bool {
	switch a {
	case atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Iframe, atom.Object, atom.Svg, atom.Math, atom.Canvas,
		atom.Select, atom.Textarea, atom.Dialog, atom.Noembed, atom.Noframes, atom.Audio, atom.Video:
		return true
	}
	return false
}

func (c *converter) characters(text []byte) {
	switch {
	case c.skipped != 0:
	case c.inTitle:
		if c.title == "" {
			c.title, _ = excerpt.Ends(strings.Join(strings.Fields(string(text)), " "), maxTitle)
			c.title = strings.ReplaceAll(c.title, "\n", " ")
		}
	case c.pre != nil:
		c.pre.text.Write(text)
	default:
		c.line.write(text)
	}
}

func (c *converter) start(a atom.Atom, t tag) {
	if c.skipped != 0 {
		if a == c.skipped {
			c.skipDepth++
		}
		return
	}
	if unread(a) {
		c.skipped, c.skipDepth = a, 1
		return
	}
	if c.pre != nil && !c.pre.start(a, t) {
		return
	}
	switch a {
	case atom.Title:
		c.inTitle = true
	case atom.Base:
		c.setBase(t.href)
	case atom.Br:
		c.line.newLine()
	case atom.Hr:
		c.endBlock()
		c.out.write([]byte("* * *"))
	case atom.Img:
		c.image(t)
	case atom.A:
		c.line.closeLink()
		c.line.openLink(c.resolve(t.href))
	case atom.B, atom.Strong, atom.I, atom.Em, atom.S, atom.Del, atom.Strike:
		c.line.open(styleOf(a))
	case atom.Code, atom.Kbd, atom.Samp, atom.Tt:
		c.line.openCode()
	case atom.Table:
		c.startTable()
	case atom.Tr, atom.Td, atom.Th, atom.Thead, atom.Tbody, atom.Tfoot, atom.Caption:
		c.startRowOrCell(a, t)
	default:
		c.startBlock(a, t)
	}
}

// isBlock reports whether an element is a separate block.
func isBlock(a atom.Atom) bool {
	switch a {
	case atom.Address, atom.Article, atom.Aside, atom.Body, atom.Center, atom.Dd, atom.Details, atom.Div, atom.Dl, atom.Dt,
		atom.Fieldset, atom.Figcaption, atom.Figure, atom.Footer, atom.Form, atom.Header, atom.Hgroup, atom.Legend, atom.Main,
		atom.Menu, atom.Nav, atom.P, atom.Search, atom.Section, atom.Summary:
		return true
	}
	return isStructure(a)
}

// isStructure reports whether an element cannot be written within a table cell, and therefore ends
// the table: it has several lines, or needs a line of its own.
func isStructure(a atom.Atom) bool {
	switch a {
	case atom.Ul, atom.Ol, atom.Li, atom.Blockquote, atom.Pre, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		return true
	}
	return false
}

func (c *converter) startBlock(a atom.Atom, t tag) {
	if !isBlock(a) {
		return
	}
	if isStructure(a) && c.table.inCell() {
		c.breakTable()
	}
	c.endBlock()
	switch a {
	case atom.Ul:
		c.out.open(container{kind: bulletList})
	case atom.Ol:
		c.out.open(container{kind: numberedList, number: listStart(t.start)})
	case atom.Li:
		c.out.openItem()
	case atom.Blockquote:
		c.out.open(container{kind: quote})
	case atom.Pre:
		c.pre = &preformatted{language: language(t.class)}
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		c.heading = int(a.String()[1] - '0')
	}
}

func (c *converter) end(a atom.Atom) {
	if c.skipped != 0 {
		if a == c.skipped {
			if c.skipDepth--; c.skipDepth == 0 {
				c.skipped = 0
			}
		}
		return
	}
	if c.pre != nil && a != atom.Pre && !c.pre.ends(a) {
		return
	}
	switch a {
	case atom.Title:
		c.inTitle = false
	case atom.Br:
		c.line.newLine()
	case atom.A:
		c.line.closeLink()
	case atom.B, atom.Strong, atom.I, atom.Em, atom.S, atom.Del, atom.Strike:
		c.line.close(styleOf(a))
	case atom.Code, atom.Kbd, atom.Samp, atom.Tt:
		c.line.closeCode()
	case atom.Td, atom.Th:
		c.endCell()
	case atom.Tr:
		c.endRow()
	case atom.Table:
		c.endTable()
	case atom.Ul:
		c.endBlock()
		c.out.close(bulletList)
	case atom.Ol:
		c.endBlock()
		c.out.close(numberedList)
	case atom.Li:
		c.endBlock()
		c.out.closeItem()
	case atom.Blockquote:
		c.endBlock()
		c.out.close(quote)
	case atom.Pre:
		c.endBlock()
	default:
		if isBlock(a) {
			c.endBlock()
		}
	}
}

// endBlock writes the current block, if it has any text. In a table cell, blocks are separated by a
// space.
func (c *converter) endBlock() {
	if c.table.inCell() {
		c.line.space()
		return
	}
	if c.pre != nil {
		c.out.write(c.pre.block())
		c.pre = nil
	}
	text := c.line.take(c.heading > 0)
	if len(text) > 0 && c.heading > 0 {
		text = append([]byte(strings.Repeat("#", c.heading)+" "), text...)
	}
	c.out.write(text)
	c.heading = 0
}

func (c *converter) image(t tag) {
	if src := c.resolve(t.src); src != "" {
		c.line.image(strings.Join(strings.Fields(t.alt), " "), src)
	}
}

func (c *converter) setBase(href string) {
	if c.based || c.base == nil || href == "" || len(href) > maxLinkURL {
		return
	}
	if u, err := c.base.Parse(strings.TrimSpace(href)); err == nil {
		c.base, c.based = u, true
	}
}

// resolve returns an absolute URL, or "" if the link is of no use to a reader.
func (c *converter) resolve(ref string) string {
	ref = strings.TrimSpace(ref)
	if ref == "" || len(ref) > maxLinkURL {
		return ""
	}
	if scheme, _, ok := strings.Cut(ref, ":"); ok {
		switch strings.ToLower(scheme) {
		case "data", "javascript", "blob":
			return ""
		}
	}
	if c.linkWork -= len(ref) + maxLinkURL/16; c.linkWork < 0 || c.base == nil {
		return linkTarget(ref)
	}
	u, err := c.base.Parse(ref)
	if err != nil {
		return ""
	}
	whole := u.String()
	if c.linkWork -= len(whole); c.linkWork < 0 {
		return linkTarget(ref)
	}
	return linkTarget(whole)
}
