// Package chat has the chats of the hub: sessions, their messages, answers of deployed agents as
// event streams, and chats that other programs upload.
//
//	service, err := chat.New(chat.Config{
//		DB: database, Audit: audit, Agent: agent, Endpoint: endpoint,
//	})
//	if err != nil { ... }
//	defer service.Close()
//	handler, err := api.New(config, service.Routes()...)
//
// [Service.Send] stores the message of the user and an empty answer, starts a run in the runtime of
// the agent, and relays its events without a change. The text is stored while it arrives, each time
// that it has grown by a quarter, so that a hub that is killed loses at most a fifth of it. An
// answer that is stored as partial is in progress, or was in progress when its hub was killed.
//
// A session has at most one answer in progress, also with several hubs on one database: the row of
// the run is a lease that its hub renews while it relays the answer. A hub that has lost the lease
// stores nothing more. A session continues one session of the runtime. The stored conversation is
// sent only if the runtime does not have that session.
//
// A runtime is not trusted. It may send 256 MiB for one answer, in events of at most about 4 MiB;
// 4 MiB of them are stored. Config limits the time until it accepts a run, between two parts of an
// answer, and of the whole answer.
//
// Neither a log nor the audit log contains a message.
package chat
