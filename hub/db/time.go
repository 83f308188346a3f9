package db

import "time"

// Micros is how a time stands in the database: microseconds since 1970, which both engines keep and compare exactly.
func Micros(t time.Time) int64 { return t.UnixMicro() }

// Time is the time, in UTC, that [Micros] made micros of.
func Time(micros int64) time.Time { return time.UnixMicro(micros).UTC() }
