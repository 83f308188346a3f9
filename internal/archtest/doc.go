// Package archtest holds no code, only the tests that keep this module's structure as it was decided. The tables in
// rules_test.go are the structure's documentation: which package may import which, which third-party module stands
// where, what a library never does, and why. A change to the structure is a change to a row there.
package archtest
