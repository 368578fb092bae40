package runtime

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// FaultMode says what happens when a monitor or the policy fails: an error, a
// panic, a score that is no number, an impossible action.
type FaultMode uint8

const (
	FailClosed FaultMode = iota // the session ends with a [FaultError]
	FailOpen                    // the session goes on without it, and the Event says so
)

// ErrFault is wrapped by every [FaultError].
var ErrFault = errors.New("fault")

// FaultError is a failure of a part that the user put into the loop.
type FaultError struct {
	Part string // "monitor", "policy"
	Name string // of the monitor; empty for the policy
	Err  error
}

func (e *FaultError) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("%s %v: %v", e.Part, ErrFault, e.Err)
	}
	return fmt.Sprintf("%s %q %v: %v", e.Part, e.Name, ErrFault, e.Err)
}

// Unwrap gives ErrFault and the cause.
func (e *FaultError) Unwrap() []error { return []error{ErrFault, e.Err} }

// maxStack bounds the stack of a panic that is kept in an error.
const maxStack = 4 << 10

// recovered turns a panic of foreign code into an error. It must be deferred
// directly.
func recovered(err *error) {
	if r := recover(); r != nil {
		stack := debug.Stack()
		*err = fmt.Errorf("panic: %v\n%s", r, stack[:min(len(stack), maxStack)])
	}
}
