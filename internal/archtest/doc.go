// Package archtest contains only tests, which enforce the structure of this module. The tables in
// rules_test.go document it: which package may import which, where a third-party module is used,
// what a library never does, and why. To change the structure, change a row.
package archtest
