package libs

import (
	"context"
	"fmt"
	"os"
	"time"
)

const lockPoll = 50 * time.Millisecond

// lockFile takes an exclusive lock on the file at path, which it makes when it
// is missing, and waits for other processes until ctx ends. The system drops
// the lock when a process dies. The file itself stays.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		ok, err := tryLock(f)
		if ok {
			return func() { f.Close() }, nil
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		case <-time.After(lockPoll):
		}
	}
}
