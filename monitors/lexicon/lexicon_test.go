package lexicon

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/google/go-cmp/cmp"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/monitors/monitortest"
)

var update = flag.Bool("update", false, "write the golden texts anew")

func phrases(list ...string) []Entry {
	var out []Entry
	for _, s := range list {
		out = append(out, Entry{Text: s})
	}
	return out
}

func regexps(list ...string) []Entry {
	var out []Entry
	for _, s := range list {
		out = append(out, Entry{Text: s, Regexp: true})
	}
	return out
}

func monitor(t testing.TB, l List) monitors.Monitor {
	t.Helper()
	m, err := l.Monitor("lexicon")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// read feeds pieces to a new watcher and spells the verdicts: "token<onset
// note" for each flagged token, with the score if it is not 1.
func read(t testing.TB, m monitors.Monitor, pieces ...string) []string {
	t.Helper()
	w := m.Start()
	var out []string
	for i, p := range pieces {
		v, err := w.Observe(t.Context(), &monitors.Observation{Step: i, Token: decode.Token(i), Piece: []byte(p)})
		if err != nil {
			t.Fatal(err)
		}
		if v.Flag != (v.Score > 0) || !v.Flag && v != (monitors.Verdict{}) {
			t.Errorf("token %d: %+v", i, v)
		}
		if v.Flag {
			out = append(out, fmt.Sprintf("%d<%d %s", i, v.Onset, v.Note))
		}
	}
	return out
}

func TestMatches(t *testing.T) {
	bomb := phrases("make a bomb", "bomb")
	for _, tt := range []struct {
		name   string
		list   List
		pieces []string
		want   []string
	}{
		{"one token", List{Entries: phrases("bomb")}, []string{"a bomb!"}, []string{"0<0 bomb"}},
		{"across tokens", List{Entries: bomb}, []string{"I ma", "ke a", " bo", "mb"}, []string{"3<3 make a bomb and 1 more"}},
		{"part of a word", List{Entries: bomb}, []string{"a bomb", "astic"}, []string{"0<0 bomb"}},
		{"words: part of a word", List{Entries: bomb, Words: true}, []string{"a bomb", "astic", " a", "bomb", "."}, nil},
		{"words: border shows later", List{Entries: bomb, Words: true}, []string{"a bomb", " is"}, []string{"1<1 bomb"}},
		{"words: border in the token", List{Entries: bomb, Words: true}, []string{"bomb, bomb"}, []string{"0<0 bomb"}},
		{"words: a token without text", List{Entries: bomb, Words: true}, []string{"bomb", "", " a"}, []string{"1<1 bomb"}},
		{"words: marks belong to letters", List{Entries: phrases("cafe"), Words: true}, []string{"cafe", "\u0301 cafe "}, []string{"1<0 cafe"}},
		{"words: own edge is no letter", List{Entries: phrases("c++"), Words: true}, []string{"c+", "+", "x"}, []string{"1<1 c++"}},
		{"words: no spaces in the script", List{Entries: phrases("爆弾"), Words: true}, []string{"この爆", "弾を"}, []string{"1<1 爆弾"}},
		{"case", List{Entries: phrases("Straße")}, []string{"STRA", "SSE"}, []string{"1<1 Straße"}},
		{"wide, styled, ligatures", List{Entries: phrases("office")}, []string{"ｏ𝐟ﬁce"}, []string{"0<0 office"}},
		{"composed and not", List{Entries: phrases("café")}, []string{"cafe", "\u0301"}, []string{"1<1 café"}},
		{"invisible", List{Entries: phrases("bomb")}, []string{"b\u200bo", "m\u00ad", "b"}, []string{"2<2 bomb"}},
		{"white space", List{Entries: phrases("a  b")}, []string{"a\n", "\n", "\t", "b"}, []string{"3<3 a  b"}},
		{"exact", List{Entries: phrases("Bomb"), Exact: true}, []string{"bomb ", "Bo", "mb"}, []string{"2<1 Bomb"}},
		{"split character", List{Entries: phrases("€5")}, []string{"x\xe2", "\x82", "\xac", "5"}, []string{"3<3 €5"}},
		{"ends with a split character", List{Entries: phrases("5€")}, []string{"5", "\xe2\x82", "\xac"}, []string{"2<2 5€"}},
		{"behind a split character", List{Entries: phrases("5")}, []string{"\xe2", "\x82", "\xac5"}, []string{"2<0 5"}},
		{"broken character", List{Entries: phrases("5")}, []string{"\xe2", "\x825", "\xff5"}, []string{"1<0 5", "2<0 5"}},
		{"overlapping", List{Entries: phrases("he", "she", "hers")}, []string{"ushers"}, []string{"0<0 she and 2 more"}},
		{"suffix of a longer one", List{Entries: phrases("abcd", "bc")}, []string{"abc", "x"}, []string{"0<0 bc"}},
		{"again", List{Entries: phrases("ha")}, []string{"ha", "ha", "ha"}, []string{"0<0 ha", "1<0 ha", "2<0 ha"}},
		{"regexp", List{Entries: regexps(`b\w+b`)}, []string{"a B b", "om", "b"}, []string{"2<2 b\\w+b"}},
		{"regexp without case", List{Entries: regexps(`(?i)b\w+b`)}, []string{"BOM", "B"}, []string{"1<1 (?i)b\\w+b"}},
		{"regexp with borders", List{Entries: regexps(`\bcat\b`)}, []string{"con", "cat", " cat", "s cat", "."}, []string{"4<1 \\bcat\\b"}},
		{"regexp at a line's end", List{Entries: regexps(`(?m:cat$)`)}, []string{"cat", "s cat", "\n"}, []string{"2<1 (?m:cat$)"}},
		{"regexp at the start", List{Entries: regexps(`^cat`)}, []string{"c", "at", "cat"}, []string{"1<1 ^cat"}},
		{"regexp at a line's start", List{Entries: regexps(`(?m:^cat)`)}, []string{"x", "\nc", "at"}, []string{"2<1 (?m:^cat)"}},
		{"regexp and split character", List{Entries: regexps(`.5`)}, []string{"x\xe2", "\x82\xac", "5"}, []string{"2<2 .5"}},
		{"window", List{Entries: regexps(`a.*b`), Window: 3}, []string{"a", "....", "b", "a..b"}, []string{"3<0 a.*b"}},
		{"window and border", List{Entries: regexps(`\bat\w`), Window: 2}, []string{"cat", "s"}, nil},
		{"several", List{Entries: slices.Concat(phrases("cat"), regexps(`\d+`))}, []string{"cat 12"}, []string{"0<0 cat and 1 more"}},
	} {
		got := read(t, monitor(t, tt.list), tt.pieces...)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestGolden(t *testing.T) {
	l, err := ReadFile("testdata/list.txt")
	if err != nil {
		t.Fatal(err)
	}
	monitortest.Golden(t, monitor(t, *l), "testdata/list.jsonl", *update)
}

// TestLongNote: a note fits the step loop's bound and stays valid UTF-8.
func TestLongNote(t *testing.T) {
	long := strings.Repeat("ä", MaxPhrase/2)
	got := read(t, monitor(t, List{Entries: phrases(long)}), long)
	if len(got) != 1 || len(got[0]) > 220 || !utf8.ValidString(got[0]) {
		t.Errorf("%q", got)
	}
}

// words that the random texts are made of: matches, near misses, split
// characters, spaces, and a token without text.
var pool = []string{"bo", "mb", "bomb", "b", " ", "\n", "é", "e", "\u0301", "\xe2\x82", "\xac", "€", "make", " a ", "Ａ", "5", "\xff", "", "\u200b", "ß", "ss", ", "}

func conformance() map[string]List {
	return map[string]List{
		"phrases": {Entries: phrases("bomb", "make a bomb", "é", "€5", "ss")},
		"words":   {Entries: phrases("bomb", "make a bomb", "a", "5"), Words: true},
		"exact":   {Entries: phrases("bomb", "a ", "é"), Exact: true},
		"regexps": {Entries: regexps(`b\w+b`, `\bmb\b`, `(?m:^bo)`, `(?i)a|€`), Window: 8},
	}
}

func TestConformance(t *testing.T) {
	for name, l := range conformance() {
		t.Run(name, func(t *testing.T) {
			monitortest.Run(t, monitor(t, l), monitortest.Options{
				Next:  func(r *rand.Rand) monitortest.Input { return monitortest.Input{Piece: []byte(pool[r.IntN(len(pool))])} },
				Walks: 10,
			})
		})
	}
}

// brute finds phrases by definition: over the whole text, folded by the outside
// judge, x/text. It returns what read returns, without the notes.
func brute(pieces []string, want []string, words bool) []string {
	type letter struct {
		r           rune
		born, shown int // tokens
	}
	var text []letter
	all := strings.Join(pieces, "")
	token := func(off int) int {
		for i, p := range pieces {
			if off -= len(p); off < 0 {
				return i
			}
		}
		return len(pieces)
	}
	judge := cases.Fold()
	for off, r := range all {
		n := utf8.RuneLen(r)
		for _, c := range judge.String(norm.NFKD.String(string(r))) {
			text = append(text, letter{c, token(off), token(off + n - 1)})
		}
	}
	counts, first := make([]int, len(pieces)), make([]int, len(pieces))
	for _, p := range want {
		f := []rune(judge.String(norm.NFKD.String(p)))
	next:
		for at := 0; at+len(f) <= len(text); at++ {
			for i, c := range f {
				if text[at+i].r != c {
					continue next
				}
			}
			end := at + len(f)
			shown := text[end-1].shown
			if words && wordy(f[0]) && at > 0 && wordy(text[at-1].r) {
				continue
			}
			if words && wordy(f[len(f)-1]) {
				if end == len(text) || wordy(text[end].r) {
					continue
				}
				shown = text[end].shown
			}
			onset := shown - text[at].born
			counts[shown]++
			first[shown] = max(first[shown], onset)
		}
	}
	var out []string
	for i, n := range counts {
		if n > 0 {
			out = append(out, fmt.Sprintf("%d<%d %d", i, first[i], n))
		}
	}
	return out
}

// TestAgainstBruteForce: random phrases in random texts, cut at random bytes.
func TestAgainstBruteForce(t *testing.T) {
	letters := []rune("aabbcßéÉ€ﬁK.5 ")
	word := func(r *rand.Rand, n int) string {
		out := []rune{}
		for range n {
			c := letters[r.IntN(len(letters))]
			if c == ' ' && len(out) > 0 && out[len(out)-1] == ' ' {
				c = 'a'
			}
			out = append(out, c)
		}
		return string(out)
	}
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 7))
		var list []string
		for range 1 + r.IntN(5) {
			if p := strings.TrimSpace(word(r, 1+r.IntN(4))); p != "" && !slices.Contains(list, p) {
				list = append(list, p)
			}
		}
		list = distinct(list)
		if len(list) == 0 {
			continue
		}
		text := strings.TrimLeft(word(r, 80), " ")
		var pieces []string
		for len(text) > 0 {
			n := 1 + r.IntN(min(4, len(text)))
			pieces, text = append(pieces, text[:n]), text[n:]
		}
		l := List{Entries: phrases(list...), Words: r.IntN(2) == 0}
		w := monitor(t, l).Start()
		var got []string
		for i, p := range pieces {
			v, err := w.Observe(t.Context(), &monitors.Observation{Step: i, Piece: []byte(p)})
			if err != nil {
				t.Fatal(err)
			}
			if v.Flag {
				got = append(got, fmt.Sprintf("%d<%d %v", i, v.Onset, v.Score))
			}
		}
		if want := brute(pieces, list, l.Words); !slices.Equal(got, want) {
			t.Fatalf("seed %d, words %v, phrases %q, pieces %q:\n%s", seed, l.Words, list, pieces, cmp.Diff(want, got))
		}
	}
}

// distinct leaves out phrases that fold to one before them.
func distinct(list []string) (out []string) {
	seen := map[string]bool{}
	for _, s := range list {
		if f := fold(s); !seen[f] {
			seen[f] = true
			out = append(out, s)
		}
	}
	return out
}

// TestFoldAgainstXText: characters that x/text folds together are folded
// together here, over all of Unicode.
func TestFoldAgainstXText(t *testing.T) {
	judge := cases.Fold()
	bad := 0
	for r := rune(1); r <= utf8.MaxRune; r++ {
		if !utf8.ValidRune(r) || ignorable(r) {
			continue
		}
		theirs := judge.String(norm.NFKD.String(string(r)))
		if a, b := fold("x"+string(r)+"x"), fold("x"+theirs+"x"); a != b {
			if bad++; bad < 20 {
				t.Errorf("%U %q folds to %q, x/text's %q to %q", r, r, a, theirs, b)
			}
		}
	}
	for _, r := range []rune{0xad, 0x200b, 0x200d, 0x2060, 0xfeff, 0xfe0f, 0x34f, 0x115f, 0xe0100} {
		if fold("x"+string(r)+"x") != "XX" {
			t.Errorf("%U is not left out", r)
		}
	}
}

// TestAutomatonAgainstIndex: states and outputs agree with a search for
// suffixes.
func TestAutomatonAgainstIndex(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 9))
		make3 := func(n int) string {
			b := make([]byte, n)
			for i := range b {
				b[i] = byte('a' + r.IntN(3))
			}
			return string(b)
		}
		var list []string
		for range 1 + r.IntN(12) {
			if p := make3(1 + r.IntN(5)); !slices.Contains(list, p) {
				list = append(list, p)
			}
		}
		a, text, n := newAutomaton(list), make3(100), int32(0)
		for i := range text {
			n = a.step(n, text[i])
			var got, want []string
			for s := n; s != 0; s = a.above[s] {
				if a.out[s] >= 0 {
					got = append(got, list[a.out[s]])
				}
			}
			for _, p := range list {
				if strings.HasSuffix(text[:i+1], p) {
					want = append(want, p)
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d, %q behind %q: %q, want %q", seed, list, text[:i+1], got, want)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	many := make([]Entry, MaxEntries+1)
	for _, tt := range []struct {
		name string
		list List
		want string
	}{
		{"nothing", List{}, "nothing to look for"},
		{"too many", List{Entries: many}, "more than 100000 entries"},
		{"too many expressions", List{Entries: regexps(make([]string, MaxRegexps+1)...)}, "65 regular expressions, the limit is 64"},
		{"window", List{Entries: phrases("a"), Window: -1}, "window of -1 bytes"},
		{"large window", List{Entries: phrases("a"), Window: MaxWindow + 1}, "window of 4097 bytes"},
		{"empty", List{Entries: phrases("")}, "is empty"},
		{"empty, exact", List{Entries: phrases(""), Exact: true}, "is empty"},
		{"invisible", List{Entries: phrases("\u200b ")}, "no visible character"},
		{"long", List{Entries: phrases(strings.Repeat("a", MaxPhrase+1))}, "1025 bytes"},
		{"UTF-8", List{Entries: phrases("a\xff")}, "not valid UTF-8"},
		{"broken", List{Entries: phrases("a\ufffd")}, "U+FFFD"},
		{"control", List{Entries: phrases("a\x00")}, "control character"},
		{"together", List{Entries: phrases(slices.Repeat([]string{strings.Repeat("a", MaxPhrase)}, 2049)...)}, "2098176 bytes together"},
		{"expression", List{Entries: regexps("a(")}, "missing closing ): \"a(\""},
		{"empty match", List{Entries: regexps("a*")}, "matches the empty text"},
		{"end", List{Entries: regexps("a$")}, "never match"},
		{"end of text", List{Entries: regexps(`a\z`)}, "never match"},
		{"program", List{Entries: regexps(`(?:abcdefghijkl){1000}`)}, "12002 instructions, the limit is 10000"},
		{"long expression", List{Entries: regexps(strings.Repeat("a", MaxPattern+1))}, "1025 bytes"},
		{"place", List{Entries: []Entry{{Text: "a(", Regexp: true, Line: 3, Column: 4}}}, "line 3, column 4: "},
	} {
		if _, err := tt.list.Monitor("m"); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if _, err := (&List{Entries: phrases("a")}).Monitor(""); err == nil {
		t.Error("a monitor without a name")
	}
}

func BenchmarkObserve(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	var list []string
	for range 10_000 {
		list = append(list, fmt.Sprintf("word%x phrase%x", r.Uint32(), r.Uint32()))
	}
	for _, bb := range []struct {
		name string
		list List
	}{
		{"10000 phrases", List{Entries: phrases(list...), Words: true}},
		{"1 regexp", List{Entries: regexps(`(?i)\bbomb\w*`)}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			w := monitor(b, bb.list).Start()
			pieces := []string{" word", "1", "f phr", "ase", " and", " more."}
			o := &monitors.Observation{}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				o.Piece = append(o.Piece[:0], pieces[i%len(pieces)]...)
				if _, err := w.Observe(b.Context(), o); err != nil {
					b.Fatal(err)
				}
				if o.Step++; o.Step == 512 {
					if err := w.Rewind(512); err != nil {
						b.Fatal(err)
					}
					o.Step = 0
				}
			}
		})
	}
}
