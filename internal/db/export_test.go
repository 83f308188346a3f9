package db

// Statements returns the number of prepared statements that a connection of the driver keeps.
func Statements(conn any) int { return len(conn.(*patientConn).statements) }
