// Package usertest runs parts of a test as a user who has no rights of his own, so that a test of permissions means the same
// to root, for whom they do not hold, as to everyone else. It is empty on systems other than Linux, the only one on which a
// single thread may be another user.
package usertest
