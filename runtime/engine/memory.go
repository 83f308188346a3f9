package engine

import "github.com/seed93082962/agenthost/runtime/model"

const (
	// freeMemory is not reserved: runs of ordinary size continue when others have used up the
	// memory.
	freeMemory = 256 << 10
	// memoryStep is the unit of reservations, so that few of them are made.
	memoryStep = 64 << 10
	// copies is how often the text of a response is in memory, at most: its parts with the rest of
	// their buffer, the message, the line of the session, and the event.
	copies = 5
)

// memory is what a run has reserved by Config.Reserve.
type memory struct {
	reserve  func(bytes int) error // may be nil
	messages int                   // bytes of the transcript and of its request
	reserved int
}

// hold reserves or releases memory for the transcript and size bytes of a response.
func (m *memory) hold(size int) error {
	need := m.messages + copies*size - freeMemory
	if m.reserve == nil || need <= m.reserved && need > m.reserved-memoryStep || need <= 0 && m.reserved == 0 {
		return nil
	}
	return m.change(max(0, (need+memoryStep-1)/memoryStep*memoryStep))
}

func (m *memory) change(need int) error {
	if err := m.reserve(need - m.reserved); err != nil {
		return err
	}
	m.reserved = need
	return nil
}

// holdMessages reserves memory for the messages of a request, and for its encoding.
func (m *memory) holdMessages(messages []model.Message) error {
	m.messages = 0
	for i := range messages {
		m.messages += 2 * messages[i].Size()
	}
	return m.hold(0)
}

// release releases everything.
func (m *memory) release() {
	if m.reserved > 0 {
		_ = m.change(0) // it only releases
	}
}
