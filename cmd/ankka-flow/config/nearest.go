package config

import (
	"fmt"
	"strings"
)

// Nearest is the name that takes the fewest edits from what was given, or "" where
// none is close. Case, hyphens, dots and underscores count for nothing, so that
// maxRecords finds max-records.
func Nearest(given string, names []string) string {
	folded := fold(given)
	best, bestDistance := "", len(folded)/3+2
	for _, name := range names {
		if d := editDistance(folded, fold(name)); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// didYouMean is the hint behind an unknown name, or "".
func didYouMean(given string, names []string) string {
	if near := Nearest(given, names); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
}

func fold(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "", ".", "").Replace(name))
}

// editDistance is Levenshtein's.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
