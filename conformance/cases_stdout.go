package conformance

// stdout belongs to the protocol, stdin too, and stderr to people.
var stdoutCases = []Case{
	printing("stdio.print", "print", "what a handler prints is on stderr, and not between frames"),
	printing("stdio.print-descriptor", "print-fd", "what a C library writes to descriptor 1 is on stderr, and not between frames"),
	{
		Name: "stdio.child-prints", Section: sectionPipes,
		Sentence: "what a program that the streamlet starts writes to its stdout is on stderr",
		ask: func(t *talk) {
			t.begin()
			t.echoed(t.batch("in", 0, rec("run", "echo hello from a child")))
			t.says("hello from a child")
		},
	},
	{
		Name: "stdio.grandchild-prints", Section: sectionPipes,
		Sentence: "and so is what that program's own children write",
		ask: func(t *talk) {
			t.begin()
			t.echoed(t.batch("in", 0, rec("run", `sh -c '(echo hello from a grandchild) & wait'`)))
			t.says("hello from a grandchild")
		},
	},
	{
		Name: "stdio.input-is-empty", Section: sectionPipes,
		Sentence: "a handler that reads its standard input reads its end, and not the supervisor's frames",
		ask: func(t *talk) {
			t.begin()
			r := rec("read", "what is read comes instead")
			b := t.batch("in", 0, r)
			t.acked(b)
			r.Value = []byte{}
			t.emits(b, "out", r)
			t.alive(1)
		},
	},
	{
		Name: "stdio.child-reads-nothing", Section: sectionPipes,
		Sentence: "a program that the streamlet starts, and that reads its stdin, reads its end",
		ask: func(t *talk) {
			t.begin()
			t.echoed(t.batch("in", 0, rec("run", "echo it read $(cat | wc -c) bytes")))
			t.says("it read 0 bytes")
			t.alive(1)
		},
	},
	{
		Name: "stdio.variable-is-removed", Section: sectionPipes,
		Sentence: "a program that the streamlet starts does not take itself for one that was launched by the supervisor",
		ask: func(t *talk) {
			t.begin()
			t.echoed(t.batch("in", 0, rec("run", "echo the variable is ${"+protocolVariable+"-unset}")))
			t.says("the variable is unset")
		},
	},
	{
		Name: "stdio.stderr-unbuffered", Section: sectionPipes,
		Sentence: "what a handler writes to stderr is seen while the handler still runs",
		ask: func(t *talk) {
			t.begin()
			gate := t.gate("late")
			b := t.batch("in", 0, rec("print-err", "before the wait"), late(gate))
			t.says("before the wait")
			t.open(gate)
			t.echoed(b)
		},
	},
	{
		Name: "stdio.started-by-hand", Section: sectionPipes, Env: []string{protocolVariable, attachVariable + "=" + noSuchSocket},
		Sentence: "a process without the variable was started by hand: it says on stderr how to run it, and exits",
		ask: func(t *talk) {
			t.awaitExit("a text on stderr and an exit")
			if t.failure == nil && len(t.errs.all()) == 0 {
				t.fail("a text on stderr that says how to run it", "an exit without a word")
			}
		},
	},
}

// printing asks for a word that writes the value to stdout in some way.
func printing(name, word, sentence string) Case {
	return Case{
		Name: name, Section: sectionPipes, Sentence: sentence,
		ask: func(t *talk) {
			t.begin()
			t.echoed(t.batch("in", 0, rec(word, "hello from "+word)))
			t.says("hello from " + word)
			t.alive(1)
		},
	}
}
