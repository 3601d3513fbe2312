// Package python holds the sources of the Python SDK, so that the program can write
// a copy of them beside a new streamlet. It has no code of its own and no goroutine.
package python
