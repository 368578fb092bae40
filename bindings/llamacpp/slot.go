package llamacpp

// slot is a C-callable function that shows nodes to one hook at a time. It takes
// no arguments and returns nothing, for which purego needs no heap memory; the
// hook behind it stands for the user data. Such functions can never be freed, so
// a closed engine leaves its slot to the next: there are as many as engines were
// ever open at once.
type slot struct {
	addr uintptr
	hook *hook // nil while no engine has the slot
}

// takeSlot gives the hook a slot. The library's mutex is held.
func (l *Library) takeSlot(h *hook) *slot {
	for _, s := range l.slots {
		if s.hook == nil {
			s.hook = h
			return s
		}
	}
	s := &slot{hook: h}
	s.addr = newPlainCallback(func() { s.hook.shown() })
	l.slots = append(l.slots, s)
	return s
}

// leaveSlot makes the slot free. The library's mutex is held.
func (l *Library) leaveSlot(s *slot) {
	if s != nil {
		s.hook = nil
	}
}
