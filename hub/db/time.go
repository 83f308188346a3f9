package db

import "time"

// Micros returns the stored form of a time: microseconds since 1970, which both engines store and
// compare exactly.
func Micros(t time.Time) int64 { return t.UnixMicro() }

// Time returns the time, in UTC, of which [Micros] returned micros.
func Time(micros int64) time.Time { return time.UnixMicro(micros).UTC() }
