// Package quantity writes amounts of memory and of processors.
package quantity

import "fmt"

// Memory returns a number of bytes as in the settings of a deployment, such as 512Mi, rounded down.
func Memory(bytes int64) string {
	if bytes >= 1<<30 && bytes%(1<<30) == 0 {
		return fmt.Sprintf("%dGi", bytes>>30)
	}

	return fmt.Sprintf("%dMi", bytes>>20)
}

// CPU returns thousandths of a processor as in the settings of a deployment, such as 500m.
func CPU(milli int64) string { return fmt.Sprintf("%dm", milli) }
