package db

// Statements returns the number of prepared statements that a connection of the driver keeps.
func Statements(conn any) int { return len(conn.(*patientConn).statements) }

// Waiting returns the number of calls that wait.
func (g *Group[T]) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}
