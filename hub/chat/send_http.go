package chat

import (
	"errors"
	"net/http"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/sse"
)

func (s *Service) sendMessage(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[SendInput](w, r)
	if err != nil {
		return err
	}
	caller := api.CallerOf(r)
	answer, before, err := s.send(r.Context(), caller, r.PathValue("name"), r.PathValue("id"), in)
	if err != nil {
		return err
	}
	if before != nil {
		if err := api.TakeShare(r, api.ShareOwner(caller)); err != nil { // for the memory of the answer
			return err
		}
		sent, err := s.sent(r.Context(), before)
		if err != nil {
			return err
		}
		return api.Encode(w, http.StatusOK, sent)
	}
	defer answer.Close()
	return s.relay(w, answer)
}

// relay sends the events of an answer. A client that stops reading cancels it.
func (s *Service) relay(w http.ResponseWriter, answer *Answer) error {
	stream, err := sse.NewStream(w, sse.StreamConfig{WriteTimeout: s.cfg.WriteTimeout, OnError: func(error) { answer.Cancel() }})
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }() // OnError has the error of a write
	for ev, more := range answer.Events() {
		err := stream.Queue(ev)
		if _, invalid := errors.AsType[*sse.FieldError](err); err != nil && !invalid {
			break
		}
		if !more && stream.Flush() != nil {
			break
		}
	}
	return nil
}
