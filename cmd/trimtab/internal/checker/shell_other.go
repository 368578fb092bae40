//go:build !unix

package checker

import (
	"context"
	"os/exec"
)

// shell is the command for the system's shell.
func shell(ctx context.Context, command string) *exec.Cmd {
	return exec.CommandContext(ctx, "cmd", "/C", command)
}
