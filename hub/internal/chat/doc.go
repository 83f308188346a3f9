// Package chat has the chats of the hub: sessions and their messages.
//
//	service, err := chat.New(chat.Config{
//		Store: store, Catalog: catalog, Deployments: deployments, Labels: labels,
//	})
//	if err != nil { ... }
//	defer service.Close()
//	handler, err := api.New(config, service.Routes()...)
//
// [Service.Send] stores the message of the user and an empty answer, and starts a run in the
// runtime of the agent: see package relay. A session continues one session of the runtime. The
// stored conversation is sent only if the runtime does not have that session. [Service.Upload]
// stores sessions of other programs, for package push.
//
// Neither a log nor the audit log contains a message.
package chat
