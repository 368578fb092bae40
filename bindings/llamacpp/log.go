package llamacpp

import (
	"strings"
	"sync"
)

// Levels of ggml's log callback (ggml.h, enum ggml_log_level).
const (
	logWarn  = 3
	logError = 4
	logCont  = 5 // continues the line before
)

// maxLogLines bounds what is kept of llama.cpp's complaints for error texts.
const maxLogLines = 8

// logTail keeps the last warnings and errors that llama.cpp printed, so that an
// error can say why. llama.cpp logs from any thread.
type logTail struct {
	mu    sync.Mutex
	last  uintptr
	lines []string
}

// add is the log callback: level, text, user data.
func (l *logTail) add(level uintptr, text uintptr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if level == logCont {
		level = l.last
	}
	l.last = level
	if level != logWarn && level != logError {
		return
	}
	line := strings.TrimSpace(goString(text))
	if line == "" {
		return
	}
	if len(l.lines) == maxLogLines {
		l.lines = append(l.lines[:0], l.lines[1:]...)
	}
	l.lines = append(l.lines, line)
}

// take returns the lines since the last take, joined, and forgets them.
func (l *logTail) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := strings.Join(l.lines, "; ")
	l.lines = l.lines[:0]
	return s
}
