package config

import (
	"strings"
	"testing"
)

// FuzzJAAS: a line gives a user and a password, which another quoting of them
// gives as well, or a reason that shows nothing of what it might hold.
func FuzzJAAS(f *testing.F) {
	for _, line := range []string{
		`org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";`, `ScramLoginModule required username='a "b"' password=x ;`,
		`PlainLoginModule required username="a\"\\" password="";`, `PlainLoginModule required username="a" password="b"`, `X required;`, `PlainLoginModule required username="a" password="b" username="c";`,
		`PlainLoginModule required username="a" password="b"; x`, `"`, `\`, `;`, "a b\tc\n;",
	} {
		f.Add(line)
	}
	const secret = "s3cr3tpassword"
	f.Fuzz(func(t *testing.T, line string) {
		j, problem := parseJAAS(line)
		if problem != "" {
			if len(problem) > len(line)+200 {
				t.Errorf("a long problem: %q", problem)
			}
			// Wherever an option's value stands, a problem does not show it.
			_, problem = parseJAAS(line + " password=" + secret + " username=" + secret + ";")
			if strings.Contains(problem, secret) {
				t.Errorf("a problem shows a password: %q", problem)
			}
			return
		}
		quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
		module := "PlainLoginModule"
		if j.scram {
			module = "a.ScramLoginModule"
		}
		again, problem := parseJAAS(module + ` required username="` + quote.Replace(j.username) + `" password="` + quote.Replace(j.password) + `";`)
		if problem != "" || again != j {
			t.Errorf("%+v came back as %+v: %s", j, again, problem)
		}
	})
}
