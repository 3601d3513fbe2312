// Package screen is how lines and one live line share a terminal: what is
// written scrolls as ever, and below it stands one line that is drawn again after
// each write, in place. There is no alternate screen and no scrolling region, so
// that everything stays in the terminal's history.
//
// It also decides what of a foreign line may reach a terminal (Clean). It must not
// know what the lines are about, where the figures come from, or whether a live
// line is wanted.
//
// It has no goroutine.
package screen
