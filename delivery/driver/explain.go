package driver

import (
	"fmt"
	"unicode/utf8"

	"ankka-flow/delivery"
	"ankka-flow/wire"
)

// explain words a breach that the core found as the protocol's page does. It is
// delivery.Config.Explain.
func explain(b delivery.Breach) string {
	switch b.Kind {
	case delivery.BreachNeverSent, delivery.BreachAnswered:
		return wire.NotInFlight(b.Message, b.ID, b.Kind == delivery.BreachAnswered).Error()
	case delivery.BreachOutlet:
		return wire.UnknownOutlet(b.Message, b.ID, b.Outlet, b.Declared).Error()
	case delivery.BreachHeld:
		if b.Limit == wire.MaxHeld { // the page names no other
			return wire.HeldTooMuch(b.Message, b.ID).Error()
		}
	case delivery.BreachUnasked:
		return unasked(b.Message)
	}
	return ""
}

// unasked is a spec or a stopped that answers nothing.
func unasked(message string) string {
	question := wire.KindDiscover
	if message == wire.KindStopped {
		question = wire.KindStop
	}
	return wire.OutOfPlace(message, "but as the one answer to "+question).Error()
}

// A refusal has a bound, for what is refused comes from outside: a descriptor of
// one frame can have more wrong than fits into another.
const (
	maxProblems     = 100
	maxProblemBytes = 1000
)

// bounded cuts problems to what can be sent and read.
func bounded(problems []string) []string {
	if more := len(problems) - maxProblems; more > 0 {
		problems = append(problems[:maxProblems:maxProblems], fmt.Sprintf("and %d more problems", more))
	}
	for i, problem := range problems {
		if len(problem) > maxProblemBytes {
			cut := maxProblemBytes
			for cut > maxProblemBytes-utf8.UTFMax && !utf8.RuneStart(problem[cut]) {
				cut--
			}
			problems[i] = problem[:cut] + "..."
		}
	}
	return problems
}
