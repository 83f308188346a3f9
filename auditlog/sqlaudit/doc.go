// Package sqlaudit keeps an audit log in PostgreSQL or SQLite through database/sql. It imports no driver:
//
//	db, err := sql.Open("pgx", url)
//	err = sqlaudit.Migrate(ctx, db, sqlaudit.PostgreSQL)
//	store, err := sqlaudit.New(sqlaudit.Config{Write: db, Engine: sqlaudit.PostgreSQL})
//	defer store.Close()
//
// [Store.Append] writes records in a transaction of their own, which all concurrent callers share. [Store.AppendTx] joins
// the caller's transaction, so that a change and its entry stand or fall together.
//
// # How it is kept
//
// Each tenant has a head row, which is locked by whoever appends and gives the ids. So any number of processes may write,
// ids have no gap, and nothing appears below an id that was seen. An entry carries its position within its category, its
// action and its actor (a user within one category). The total of a filter is then the position of the last entry that
// fits, less that of the last one before the range, and the way from a position to an id goes over milestones, a partial
// index of every sixteenth position: pages at any depth, and totals, cost what the first page costs. That holds for no
// filter, category, action, time range and their combinations, and such a page is one statement. A part of a user name is
// looked for among the users, and the positions of those that fit are added up: that costs by the number of such users,
// not of entries, and less where the same was asked some thousands of entries ago, because the store remembers positions.
// A user and an action together are counted one by one. What is pruned between the statements of such a query is either
// all in its answer or not at all.
//
// While a batch of Append is in flight, the next is sealed behind it. One statement then moves the head and inserts, if
// the head is where it was thought to be; if not, the batch is sealed again with the head locked.
//
// # Connections
//
// On PostgreSQL read committed, the default, is what the store expects of its own transactions; those given to AppendTx
// may have any isolation. On SQLite Write should have a single connection, WAL, a busy timeout, and transactions that begin
// immediate (_txlock=immediate with modernc.org/sqlite).
package sqlaudit
