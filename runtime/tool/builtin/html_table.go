package builtin

import (
	"bytes"
	"strconv"
	"strings"

	"golang.org/x/net/html/atom"
)

// Limits of the cells that a page can add to its tables without text.
const (
	maxSpan    = 1000   // of one cell
	maxSpanned = 10_000 // cells that all spans of a page add
	maxFilled  = 1000   // cells that rows shorter than the longest add, in addition to three for each cell with a tag
)

// table is the open table. Its rows are written at its end. Where a cell has more than a line of
// text, such as a list or another table, the rest of the table is read as blocks.
type table struct {
	rows    [][]string
	row     []string
	cell    bool // a cell is open
	colspan int  // of that cell
	rowspan int
	below   []int // by column: rows below that a cell of an earlier row covers
}

func (t *table) inCell() bool { return t != nil && t.cell }

func (c *converter) startTable() {
	c.breakTable() // a table that contains a table is page layout
	c.table = &table{}
}

func (c *converter) startRowOrCell(a atom.Atom, t tag) {
	switch {
	case c.table == nil:
		c.endBlock()
	case a == atom.Td || a == atom.Th:
		c.endCell()
		c.endBlock()
		c.openCell(t)
	default:
		c.endRow()
		c.endBlock()
	}
}

func (c *converter) endCell() {
	t := c.table
	if !t.inCell() {
		c.endBlock()
		return
	}
	text := c.line.take(true)
	t.cell = false
	t.add(string(bytes.ReplaceAll(text, []byte("|"), []byte(`\|`))), t.rowspan)
	for range t.colspan - 1 {
		t.add("", t.rowspan)
	}
}

func (c *converter) endRow() {
	c.endCell()
	if t := c.table; t != nil && len(t.row) > 0 {
		t.cover()
		t.rows = append(t.rows, t.row)
		t.row = nil
	}
}

// endTable writes the table with its last cell.
func (c *converter) endTable() {
	c.endRow()
	c.breakTable()
}

// breakTable writes the table up to the last whole row, and the rest as blocks.
func (c *converter) breakTable() {
	t := c.table
	if t == nil {
		c.endBlock()
		return
	}
	c.table = nil
	text := c.line.take(false)
	if !t.cell { // text between the cells: browsers show it above the table
		c.out.write(text)
		text = nil
	}
	c.writeTable(t)
	c.out.write([]byte(strings.TrimSpace(strings.Join(t.row, " "))))
	c.out.write(text)
}

func (c *converter) openCell(a tag) {
	t := c.table
	t.cell = true
	t.colspan, t.rowspan = span(a.colspan), span(a.rowspan)
	added := t.colspan*t.rowspan - 1
	if c.spanned+added > maxSpanned {
		t.colspan, t.rowspan, added = 1, 1, 0
	}
	c.spanned += added
}

func span(value string) int {
	n, err := strconv.Atoi(strings.TrimSpace(value))
	if err != nil || n < 1 {
		return 1
	}
	return min(n, maxSpan)
}

// add appends a cell after those that earlier rows cover.
func (t *table) add(text string, rows int) {
	t.cover()
	column := len(t.row)
	t.row = append(t.row, text)
	if rows > 1 {
		for len(t.below) <= column {
			t.below = append(t.below, 0)
		}
		t.below[column] = rows - 1
	}
}

// cover appends the cells at the current column that a cell of an earlier row covers.
func (t *table) cover() {
	for len(t.row) < len(t.below) && t.below[len(t.row)] > 0 {
		t.below[len(t.row)]--
		t.row = append(t.row, "")
	}
}

// writeTable writes the rows as a table with the first row as its head. A table that has one column
// or is mostly empty is written as lines.
func (c *converter) writeTable(t *table) {
	columns, cells := 0, 0
	for _, row := range t.rows {
		columns = max(columns, len(row))
		cells += len(row)
	}
	if columns*len(t.rows) > 4*cells+maxFilled {
		columns = 1
	}
	var out bytes.Buffer
	for i, row := range t.rows {
		if columns == 1 {
			c.out.write([]byte(strings.TrimSpace(strings.Join(row, " "))))
			continue
		}
		out.WriteByte('|')
		for j := range columns {
			out.WriteByte(' ')
			if j < len(row) && row[j] != "" {
				out.WriteString(row[j])
				out.WriteByte(' ')
			}
			out.WriteByte('|')
		}
		if i == 0 {
			out.WriteString("\n|" + strings.Repeat("---|", columns))
		}
		if i < len(t.rows)-1 {
			out.WriteByte('\n')
		}
	}
	c.out.write(out.Bytes())
}
