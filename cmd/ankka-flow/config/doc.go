// Package config decides what a run is configured to do: it reads the flags that
// were given, the environment and one file, and resolves them into Settings, typed
// and complete, or into every problem that there is, each with its place.
//
// Flags win over the environment, the environment over the file, the file over the
// defaults; key by key, so that --topic in=x changes one port of a file (but a flag
// replaces its variable, all of its lines). Keys lists
// every setting once: the flags' help, --print-config, docs/configuration.md, the
// environment's names and the hint for a misspelt key are made from it. JavaKeys
// does the same for the names of the Java client in connection-config,
// consumer-config and producer-config: each is honoured, or refused with the reason.
//
// It must not connect to anything, start anything or log. It reads the
// configuration file and the files that it names (secrets, PEM), and has no
// goroutine. What it returns as an error is for the person who wrote the
// configuration: exit code 2. No text of it holds a secret's value; Secret keeps
// them out of what prints Settings.
package config
