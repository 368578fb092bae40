// Command trimtab runs, steers and inspects local language models.
//
// Every command lives in a file of its own and is built on an app, which holds
// the streams, the clock and the way to open a model, so that tests run the
// same code without a terminal, a signal or an engine. docs/formats.md
// documents flags, file formats and exit codes.
package main

import "os"

func main() { os.Exit(execute(hostApp(), os.Args[1:])) }
