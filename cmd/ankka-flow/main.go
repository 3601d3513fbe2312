package main

import (
	"io"
	"os"
)

func main() {
	os.Exit(command(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// command runs one command line and returns the exit code. It is main without
// the process: tests run it too.
func command(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	app := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	root := newRoot(app)
	app.signals = runSignals(root, args)
	root.SetArgs(args)
	return app.finish(root.Execute())
}
