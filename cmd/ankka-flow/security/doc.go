// Package security turns the security settings of a configuration, under the
// Java client's names, into what package kafka connects with: a TLS
// configuration and a SASL mechanism.
//
// It decides what of Java's settings is honoured and says by its Java name
// what is wrong or not supported. It reads no file (the configuration hands it
// the contents) and opens no connection. A password or a key never gets into
// its errors, nor into what a Settings prints as.
//
// It starts no goroutine.
package security
