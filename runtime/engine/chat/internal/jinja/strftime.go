package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// strftime formats t as C's strftime does in the C locale.
func strftime(t time.Time, format string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 >= len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		pad := byte(0)
		if format[i] == '-' && i+1 < len(format) {
			i++
			pad = '-'
		}
		s, ok := timeField(t, format[i])
		if !ok {
			return "", fail("strftime_now: unknown directive %%%c", format[i])
		}
		if pad == '-' {
			s = stripZeros(s)
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

func stripZeros(s string) string {
	t := strings.TrimLeft(s, "0 ")
	if t == "" || !isDigit(t[0]) {
		return s[max(0, len(s)-1):]
	}
	return t
}

var layouts = map[byte]string{
	'Y': "2006", 'm': "01", 'd': "02", 'B': "January", 'b': "Jan", 'h': "Jan", 'A': "Monday", 'a': "Mon",
	'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'y': "06", 'e': "_2", 'z': "-0700", 'Z': "MST",
	'F': "2006-01-02", 'T': "15:04:05", 'R': "15:04", 'D': "01/02/06", 'x': "01/02/06", 'X': "15:04:05",
	'c': "Mon Jan _2 15:04:05 2006", 'r': "03:04:05 PM",
}

func timeField(t time.Time, c byte) (string, bool) {
	if l, ok := layouts[c]; ok {
		return t.Format(l), true
	}
	year, week := t.ISOWeek()
	switch c {
	case '%':
		return "%", true
	case 'n':
		return "\n", true
	case 't':
		return "\t", true
	case 'j':
		return fmt.Sprintf("%03d", t.YearDay()), true
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
	case 's':
		return strconv.FormatInt(t.Unix(), 10), true
	case 'w':
		return strconv.Itoa(int(t.Weekday())), true
	case 'u':
		return strconv.Itoa((int(t.Weekday())+6)%7 + 1), true
	case 'C':
		return fmt.Sprintf("%02d", t.Year()/100), true
	case 'G':
		return strconv.Itoa(year), true
	case 'V':
		return fmt.Sprintf("%02d", week), true
	case 'U':
		return fmt.Sprintf("%02d", (t.YearDay()+6-int(t.Weekday()))/7), true
	case 'W':
		return fmt.Sprintf("%02d", (t.YearDay()+6-(int(t.Weekday())+6)%7)/7), true
	}
	return "", false
}
