//go:build unix

package checker

import (
	"context"
	"os/exec"
	"syscall"
)

// shell is the command in a process group of its own, so that the end of ctx
// reaches what the command started as well.
func shell(ctx context.Context, command string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}
