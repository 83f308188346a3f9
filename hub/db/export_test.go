package db

// Waiting returns the number of transactions that wait for their turn.
func Waiting(d *DB) int {
	d.groups.mu.Lock()
	defer d.groups.mu.Unlock()
	return len(d.groups.waiting)
}

// Statements returns the number of prepared statements that a connection of the driver keeps.
func Statements(conn any) int { return len(conn.(*patientConn).statements) }
