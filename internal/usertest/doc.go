// Package usertest runs parts of a test as an unprivileged user. Tests of file permissions need it
// when root runs them, because root bypasses permissions. The package is empty except on Linux, the
// only system on which a single thread can change its user.
package usertest
