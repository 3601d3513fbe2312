// Package testca makes certificate authorities and certificates for tests. It
// writes nothing to disk and starts no goroutine; nothing but tests may use it.
package testca
