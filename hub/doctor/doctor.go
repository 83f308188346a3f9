// Package doctor checks an installation and returns what is wrong with it and how to fix it. A check
// changes nothing.
//
//	results := doctor.Run(ctx, doctor.Check{Name: "disk", Do: func(context.Context) []doctor.Result {
//		return doctor.Disk("/var/lib/hub")
//	}})
//	failed := doctor.Failed(results)
package doctor

import (
	"context"
	"time"
)

// Status is what a result means.
type Status string

// Statuses.
const (
	OK      Status = "ok"
	Warning Status = "warning" // the hub works, with a limit
	Error   Status = "error"   // something does not work
)

// Result is a fact that a check found.
type Result struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	Fact   string `json:"fact"`
	Fix    string `json:"fix,omitempty"` // what to do; "" if the status is OK
}

// Fine returns a result without a fault.
func Fine(fact string) []Result { return []Result{{Status: OK, Fact: fact}} }

// Warn returns a fault with which the hub works.
func Warn(fact, fix string) []Result { return []Result{{Status: Warning, Fact: fact, Fix: fix}} }

// Fail returns a fault with which something does not work.
func Fail(fact, fix string) []Result { return []Result{{Status: Error, Fact: fact, Fix: fix}} }

// Check examines one part of an installation. Do returns no results if the installation does not
// have that part.
type Check struct {
	Name   string
	Within time.Duration // Defaults to 15 s.
	Do     func(ctx context.Context) []Result
}

const defaultWithin = 15 * time.Second

// Run runs the checks in their order and returns their results with their names.
func Run(ctx context.Context, checks ...Check) []Result {
	var all []Result
	for _, c := range checks {
		if c.Within == 0 {
			c.Within = defaultWithin
		}
		limited, cancel := context.WithTimeout(ctx, c.Within)
		for _, r := range c.Do(limited) {
			r.Check = c.Name
			all = append(all, r)
		}
		cancel()
	}
	return all
}

// Failed returns the number of results that are errors.
func Failed(results []Result) (n int) {
	for _, r := range results {
		if r.Status == Error {
			n++
		}
	}
	return n
}
