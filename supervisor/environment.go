package supervisor

import (
	"slices"
	"strings"

	"ankka-flow/wire"
)

// protocolVariable tells a process that it was launched by a supervisor.
const protocolVariable = "ANKKA_FLOW_PROTOCOL"

// passedVariables are the FLOW_* variables that are documented for processes.
var passedVariables = []string{"FLOW_STREAMLET", "FLOW_POD_NAME", "FLOW_POD_NAMESPACE"}

// mallocDefaults keep glibc from giving the memory of every batch back to the kernel and
// faulting it in again: free memory is kept up to the thresholds (trim 256 MiB, mmap
// 64 MiB, growth by 16 MiB). Other C libraries ignore them.
var mallocDefaults = []struct{ name, value string }{
	{"MALLOC_TRIM_THRESHOLD_", "268435456"},
	{"MALLOC_MMAP_THRESHOLD_", "67108864"},
	{"MALLOC_TOP_PAD_", "16777216"},
}

// Environment is the environment of a child, made from our own (os.Environ): without the
// FLOW_* variables but FLOW_STREAMLET, FLOW_POD_NAME and FLOW_POD_NAMESPACE, without the
// names in hidden (those that the configuration interpolated, so that a program gets no
// credentials by accident; it runs as the same user, so this is no security boundary),
// with ANKKA_FLOW_PROTOCOL=1.0, and with glibc's malloc settings where the user set none.
// The order is kept and own is not changed.
func Environment(own []string, hidden []string) []string {
	env := make([]string, 0, len(own)+1+len(mallocDefaults))
	given := map[string]bool{}
	for _, entry := range own {
		name, _, _ := strings.Cut(entry, "=")
		switch {
		case name == protocolVariable || slices.Contains(hidden, name):
			continue
		case strings.HasPrefix(name, "FLOW_") && !slices.Contains(passedVariables, name):
			continue
		}
		given[name] = true
		env = append(env, entry)
	}
	env = append(env, protocolVariable+"="+wire.Version)
	for _, d := range mallocDefaults {
		if !given[d.name] {
			env = append(env, d.name+"="+d.value)
		}
	}
	return env
}
