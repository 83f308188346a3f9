package password

// Hold takes all slots of hashes until release is called.
func (s *Service) Hold() (release func()) {
	for range cap(s.queue.slots) {
		s.queue.slots <- struct{}{}
	}
	return func() {
		for range cap(s.queue.slots) {
			<-s.queue.slots
		}
	}
}
