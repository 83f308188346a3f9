//go:build !unix

package compare_test

import "time"

// cpuTime is not available: it returns 0.
func cpuTime() time.Duration { return 0 }
