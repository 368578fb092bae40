package main

import "github.com/spf13/cobra"

const monitorLong = `Monitors read every token before it is committed, and a policy acts on what
they say: see --monitor and --policy of run and batch. Here they are made,
measured, given another threshold, and looked into.`

func newMonitor(a *app) *cobra.Command {
	return group(a, "monitor", "Make and measure monitors of what a model writes", monitorLong,
		newMonitorFit(a), newMonitorEval(a), newMonitorCalibrate(a), newMonitorInspect(a))
}
