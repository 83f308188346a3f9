// Package chaos has tests that kill the servers of an installation with SIGKILL at random moments,
// under chats, pushes, sign-ins, uploads, changes, deployments and reads of the audit log: hubs,
// runtimes, PostgreSQL, a server with the interface of S3, and NATS.
//
// Each caller writes a journal of its requests and of their responses. At the end, the journals
// are compared with what the API returns: no acknowledged write is missing, no answer is in
// another chat, each change has its audit entry and each entry its change, the hash chain
// verifies, each answer and each run at /runtime is counted once, no deployment or chat is stuck,
// and no process is left over. Every 20 s, and at the end, the bill of the upstreams is compared
// with the usage of the hub, which is equal, or at least that and marked as estimated: callers
// leave before the end of an answer, delete its chat, limit its time, do not complete a request, or
// run nine subagents with long names of models. One test damages the database of an installation,
// and requires that the comparison finds each damage.
//
// Other tests damage what an installation needs, and make the same comparison: the database is away
// for more than a minute; packets of each
// kind of connection are lost, reset, or not delivered for a while; the disk is full, read-only,
// fails or is slow; PostgreSQL is read-only; the clock of a machine, of hubs or of the database
// jumps by an hour; the upstream sends single bytes, or stops in the middle. 10,000 runs are open
// at once, and runs are started and cancelled for two minutes: nothing remains of them.
//
// Another test sends 100,000 random requests to the hub and to the runtime, which are generated
// from their OpenAPI documents, and prints the operations that never had a success. None has the
// status 500, or one that is not documented, and nothing of them remains in memory.
//
// `make chaos` runs the tests for CHAOSTIME (10m). They need Linux, root,
// PostgreSQL, iptables, FUSE and libfaketime.
package chaos
