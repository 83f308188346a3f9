// Package driver contains what an implementation of [auditlog.Store] needs and its users do not:
// how a record becomes an entry, what a filter means, and which entries a retention deletes. The
// suite in auditlog/auditlogtest tests such an implementation.
package driver
