package sqlaudit

import "fmt"

// engine contains the differences between PostgreSQL and SQLite.
type engine struct {
	postgres bool   // can move the head and insert in one statement; drivers cache statements
	lock     string // locks the head row of the log named $1, and returns it
	clock    string // returns the server's time in Unix microseconds; "" without a server
	contains string // format: text column, parameter
	set      string // format: parameter with a JSON array of integers; a subquery with the column key
}

func engineOf(name string) (engine, error) {
	switch name {
	case PostgreSQL:
		return engine{
			postgres: true,
			lock:     "SELECT " + logColumns + " FROM audit_heads WHERE name = $1 FOR UPDATE",
			clock:    "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)",
			contains: "strpos(%s, %s) > 0",
			set:      "(SELECT CAST(json_array_elements_text(CAST(%s AS json)) AS BIGINT) AS key)",
		}, nil
	case SQLite:
		return engine{
			lock:     "UPDATE audit_heads SET epoch = epoch WHERE name = $1 RETURNING " + logColumns,
			contains: "instr(%s, %s) > 0",
			set:      "(SELECT value AS key FROM json_each(%s))",
		}, nil
	}
	return engine{}, fmt.Errorf("open audit log: unknown engine %q", name)
}
