// Package paging parses the query parameters page, page_size and cursor of a list.
package paging

import (
	"math"
	"math/bits"
	"strconv"
	"strings"
)

const (
	// DefaultSize is the page size if the parameter is missing or empty.
	DefaultSize = 20
	// MaxSize is the largest page size. A larger parameter means MaxSize.
	MaxSize = 100

	// Want describes a valid parameter.
	Want = "must be an integer of at least 1, in plain digits"
)

// Number parses the parameter page and reports whether it is valid. A missing or empty one is 1;
// one that does not fit is the largest number.
func Number(text string) (uint64, bool) { return parse(text, 1) }

// Cursor parses the parameter cursor, the number of items before a page, and reports whether it is
// valid. A missing or empty one is 0.
func Cursor(text string) (uint64, bool) { return parse(text, 0) }

// Size parses the parameter page_size and reports whether it is valid.
func Size(text string) (int, bool) {
	n, ok := parse(text, DefaultSize)
	return int(min(n, MaxSize)), ok
}

// Offset returns the number of items before a page. It is the largest number if it does not fit:
// beyond any list.
func Offset(number uint64, size int) uint64 {
	high, low := bits.Mul64(number-1, uint64(size))
	if high != 0 {
		return math.MaxUint64
	}

	return low
}

func parse(text string, missing uint64) (uint64, bool) {
	if text == "" {
		return missing, true
	}

	if strings.Trim(text, "0123456789") != "" {
		return missing, false // ParseUint accepts a sign
	}

	n, _ := strconv.ParseUint(text, 10, 64) // returns the largest number if the text is out of range
	return n, n > 0
}
