// Package sqlaudit stores audit logs in PostgreSQL or SQLite through database/sql. It imports no
// driver:
//
//	db, err := sql.Open("pgx", url)
//	err = sqlaudit.Migrate(ctx, db, sqlaudit.PostgreSQL)
//	store, err := sqlaudit.New(sqlaudit.Config{Write: db, Engine: sqlaudit.PostgreSQL})
//	defer store.Close()
//
// [Store.Append] writes records in a transaction that concurrent callers share. [Store.AppendTx]
// joins the caller's transaction, so that a change and its entry are committed together. Any number
// of processes may write to one database.
//
// # Tables
//
// audit_heads has a row for each tenant: the newest entry, and the last pruned one. A writer locks
// it, so ids are dense and no entry appears below an id that was read. audit_keys has a row for
// each category, action, user and actor (a user within one category); entries refer to these keys.
// audit_entries has the entries.
//
// # Positions
//
// An entry stores its position within its category, its action and its actor: the number of entries
// with the same key so far. Some entries of one tenant:
//
//	id   category  category_pos  action       action_pos
//	1    auth      1             auth.login   1
//	2    user      1             user.create  1
//	3    auth      2             auth.logout  1
//	4    auth      3             auth.login   2
//	5    user      2             user.create  2
//	6    auth      4             auth.logout  2
//
// The total of a filter is a difference of two positions. For category auth and the ids 3 to 6 it
// is the position of the last auth entry at or below 6, less that of the last auth entry below 3: 4
// - 1 = 3. The index (category, id) finds each of the two entries directly. Times never decrease
// along ids, so a time range is a range of ids.
//
// A page is a range of positions. The page of category auth with offset 1 and limit 2 begins at
// position 4 - 1 = 3 and contains the positions 3 and 2: the entries 4 and 3. Pruning deletes
// entries 1 and 2 without a change of later positions; the key keeps the position of its last
// pruned entry, its floor, and totals subtract that: 4 - 1 = 3.
//
// # Milestones
//
// The page must find position 3 without reading all entries before it. An index (category,
// category_pos) of all entries would make appends slower. The index contains only every sixteenth
// position, the milestones. To find position 1,000,003 of a key, the query looks up the next
// milestone, 1,000,016, and reads the index (category, id) from its id downwards: at most fifteen
// entries are skipped. A time is found in the same way among the entries whose id is a multiple of
// 16. So a page costs the same at any depth for all filters but users.
//
// # Users
//
// A filter by user matches a part of a name or an id. The matching users are searched among the
// keys, and the positions of their actors are added up. A page reads the newest entries of those
// actors whose last entries are the newest. The cost depends on the number of matching users; a
// deep page also reads what is newer than it.
//
// # Writers
//
// A writer remembers the end of a log as a chain: the head row and the positions of keys. Calls of
// Append that arrive while a transaction is in flight are the next batch. On PostgreSQL a batch of
// one log is one statement without a lock, which moves the head only if it has not changed.
// Otherwise the writer locks the head row, and reads the positions again if the chain is not
// current.
//
// # Connections
//
// On PostgreSQL the store expects read committed, the default, for its own transactions; those
// given to AppendTx may have any isolation. On SQLite, Write should have one connection, WAL, a
// busy timeout, and transactions that begin immediate (_txlock=immediate with modernc.org/sqlite).
package sqlaudit
