// Package style holds the rules of this project's code that a compiler does not
// check, as tests: functions fit on a screen, exported names and packages are
// documented, tests neither sleep nor skip.
//
// It decides nothing for the program, touches nothing but the source, and
// starts no goroutine.
package style
