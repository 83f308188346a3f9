package agent

import "strings"

// nearest returns the known name that is most similar to an unknown one, or "".
func nearest(wrong string, known map[string]int) string {
	best, least := "", 3
	for name := range known {
		d := distance(plainName.Replace(strings.ToLower(wrong)), strings.ToLower(name))
		// Two edits of a short name make a different word.
		if d > len(name)/3 {
			continue
		}
		if d < least || d == least && name < best {
			best, least = name, d
		}
	}
	return best
}

var plainName = strings.NewReplacer("_", "", "-", "")

// distance returns the number of insertions, deletions, replacements and swaps of adjacent bytes
// that turn a into b. It is large for names whose lengths differ by more than two bytes.
func distance(a, b string) int {
	const far = 100
	if len(a) > len(b)+2 || len(b) > len(a)+2 {
		return far
	}
	var last []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], last[j-2]+1)
			}
		}
		last, row = row, next
	}
	return row[len(b)]
}
