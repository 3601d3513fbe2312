package wire

import (
	"fmt"
	"strconv"
	"strings"
)

// CheckVersion says whether a process of that protocol version may speak with
// us: the same major, and a minor not later than ours. The error names both; it
// is for whoever built the process, and refuses it without a retry.
func CheckVersion(process string) error {
	major, minor, ok := parseVersion(process)
	if !ok {
		return fmt.Errorf("the process gives %q as its protocol version, which is not MAJOR.MINOR; this supervisor speaks %s", process, Version)
	}
	ourMajor, ourMinor, _ := parseVersion(Version)
	switch {
	case major != ourMajor:
		return fmt.Errorf("the process speaks protocol %s, this supervisor speaks %s: another major version; use an SDK and an ankka-flow of the same", process, Version)
	case minor > ourMinor:
		return fmt.Errorf("the process speaks protocol %s, this supervisor speaks %s: it is too old for the process; update ankka-flow, or use an older SDK", process, Version)
	}
	return nil
}

// parseVersion reads MAJOR.MINOR: two numbers without sign or leading zeros.
func parseVersion(s string) (major, minor int, ok bool) {
	a, b, ok := strings.Cut(s, ".")
	if !ok {
		return 0, 0, false
	}
	for i, part := range []string{a, b} {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 || strconv.Itoa(n) != part {
			return 0, 0, false
		}
		if i == 0 {
			major = n
		} else {
			minor = n
		}
	}
	return major, minor, true
}
