package lexicon

import (
	"fmt"
	"strings"
	"testing"
)

// TestLargestList: a list at its bounds is read, and finds its last phrase.
func TestLargestList(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	var b strings.Builder
	for i := range MaxEntries {
		fmt.Fprintf(&b, "phrase %x\n", uint32(i)*2654435761)
	}
	l, err := Read(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	last := l.Entries[len(l.Entries)-1].Text
	if got := read(t, monitor(t, *l), "a ", last[:9], last[9:]); len(got) != 1 || got[0] != "2<1 "+last {
		t.Errorf("%q, want %q", got, last)
	}
}
