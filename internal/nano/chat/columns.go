package chat

import (
	"fmt"
	"strings"
)

// columnsConversation writes a drill of what is hardest in a careful answer: the
// sums of ten columns of digits in the notation of [Sum.Careful]. It holds more
// than twice as many sums a token as the answers themselves.
func columnsConversation(g *gen) []Message {
	var asked, answered []string
	for range 10 {
		column, total := g.column()
		asked = append(asked, column)
		answered = append(answered, fmt.Sprintf("%s=%02d", column, total))
	}
	return []Message{{User, g.casing("add the columns ") + strings.Join(asked, ",")},
		{Assistant, strings.Join(answered, ",")}}
}

// column draws two to four digits, and in two of three cases a carry that such
// a column can have.
func (g *gen) column() (text string, total int) {
	count := pick(g, []int{2, 2, 3, 3, 4})
	addends := make([]int, count, count+1)
	for i := range addends {
		addends[i] = g.r.IntN(10)
		total += addends[i]
	}
	if g.chance(2.0 / 3) {
		carry := g.r.IntN(count)
		addends = append(addends, carry)
		total += carry
	}
	return joinInts(addends, "+"), total
}
