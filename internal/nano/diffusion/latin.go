package diffusion

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// separator stands between the rows of a square and is always given.
const separator = '/'

// latin returns a writer of n by n Latin squares with the digits 1 to n: rows
// filled by random backtracking, then rows, columns and digits shuffled, so that
// every square can occur.
func latin(n int) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		square := make([]int, n*n)
		fillSquare(r, square, n, 0)
		rows, columns, digits := r.Perm(n), r.Perm(n), r.Perm(n)
		lines := make([]string, n)
		for i, row := range rows {
			line := make([]byte, n)
			for j, column := range columns {
				line[j] = byte('1' + digits[square[row*n+column]])
			}
			lines[i] = string(line)
		}
		return strings.Join(lines, string(separator))
	}
}

// fillSquare fills the cells from at on. A partly filled Latin square whose rows
// are complete can always be continued, so the search only backs up within rows.
func fillSquare(r *rand.Rand, square []int, n, at int) bool {
	if at == n*n {
		return true
	}
	for _, d := range r.Perm(n) {
		if free(square, n, at, d) {
			square[at] = d
			if fillSquare(r, square, n, at+1) {
				return true
			}
		}
	}
	return false
}

// free reports that digit d occurs neither left of the cell nor above it.
func free(square []int, n, at, d int) bool {
	row, column := at/n, at%n
	for i := range column {
		if square[row*n+i] == d {
			return false
		}
	}
	for i := range row {
		if square[i*n+column] == d {
			return false
		}
	}
	return true
}

// latinFault returns the checker of n by n squares.
func latinFault(n int) func(string) string {
	return func(text string) string {
		lines := strings.Split(text, string(separator))
		if len(lines) != n {
			return fmt.Sprintf("%d rows, want %d", len(lines), n)
		}
		var rows, columns [9][9]bool
		for i, line := range lines {
			if len(line) != n {
				return fmt.Sprintf("row %d has %d cells, want %d", i+1, len(line), n)
			}
			for j := range line {
				d := int(line[j]) - '1'
				if d < 0 || d >= n {
					return fmt.Sprintf("row %d, column %d: %q is no digit from 1 to %d", i+1, j+1, line[j], n)
				}
				if rows[i][d] || columns[j][d] {
					return fmt.Sprintf("row %d, column %d: a second %c", i+1, j+1, line[j])
				}
				rows[i][d], columns[j][d] = true, true
			}
		}
		return ""
	}
}
