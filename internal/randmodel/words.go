package randmodel

import "strings"

// space stands for a leading blank in the pieces below; each tokenizer spells
// it in its own way.
const space = " "

// common are frequent English words: they come first so that even the smallest
// vocabulary tokenises plain text into a mix of words and bytes.
const common = `the of and to in is it that was for on are as with his they at be this from
have or by one had not but what all were when we there can an your which their said if do will
each about how up out them then she many some so these would other into has more her two like him
see time could no make than first been its who now people my made over did down only way find use
may water long little very after words called just where most know system user assistant hello`

// piece is a token made by joining two earlier ones.
type piece struct{ left, right string }

func (p piece) text() string { return p.left + p.right }

// pieces returns n distinct joins in order, each of parts that are single
// characters or earlier joins: common words letter by letter, then syllables,
// then words of two and three syllables.
func pieces(n int) []piece {
	b := &builder{limit: n, seen: map[string]bool{}}
	for _, w := range strings.Fields(common) {
		b.word(space + w)
	}
	syllables := b.syllables()
	for _, a := range syllables {
		for _, c := range syllables {
			b.join(a, c)
		}
	}
	for _, a := range syllables {
		b.join(space, a)
		for _, c := range syllables {
			b.join(space+a, c)
		}
	}
	return b.out
}

type builder struct {
	limit int
	seen  map[string]bool
	out   []piece
}

func (b *builder) join(left, right string) {
	p := piece{left, right}
	if len(b.out) >= b.limit || b.seen[p.text()] {
		return
	}
	b.seen[p.text()] = true
	b.out = append(b.out, p)
}

func (b *builder) word(w string) {
	for i := 1; i < len(w); i++ {
		b.join(w[:i], w[i:i+1])
	}
}

func (b *builder) syllables() []string {
	var out []string
	for _, c := range "bcdfghjklmnprstvwyz" {
		for _, v := range "aeiou" {
			b.join(string(c), string(v))
			out = append(out, string(c)+string(v))
		}
	}
	return out
}
