//go:build !linux

package main

import "testing"

// stageOfCases: only on Linux do the tests know how to make a terminal.
func stageOfCases(*testing.T) stage { return nil }
