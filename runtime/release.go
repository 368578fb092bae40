package runtime

// hold lets everything leave that is older than the window.
func (s *Session) hold(all bool) {
	free := len(s.tokens) - s.cfg.HoldBack
	if all {
		free = len(s.tokens)
	}
	s.freed = max(s.freed, free)
	limit := len(s.text.raw)
	if s.freed < len(s.tokens) {
		limit = s.marks[s.freed].start
	}
	s.release(min(limit, len(s.text.raw)-s.text.open()), false)
}

// release lets text leave up to a byte, and counts the tokens gone with it.
func (s *Session) release(limit int, last bool) {
	s.text.release(limit, last)
	if last {
		s.freed = len(s.tokens)
	}
	for s.released < s.freed && s.tokenEnd(s.released) <= s.text.sent {
		s.released++
	}
	s.result.MaxHeld = max(s.result.MaxHeld, len(s.tokens)-s.released)
}

// tokenEnd is where the bytes of visible token i end.
func (s *Session) tokenEnd(i int) int {
	if i+1 < len(s.marks) {
		return s.marks[i+1].start
	}
	return len(s.text.raw)
}

// rewindable is how many visible tokens have not begun to leave.
func (s *Session) rewindable() int {
	k := len(s.tokens)
	for k > s.released && s.marks[k-1].start >= s.text.sent {
		k--
	}
	return len(s.tokens) - k
}
