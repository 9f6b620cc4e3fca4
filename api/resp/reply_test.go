package resp

import "testing"

func TestAnswersHaveTheFormOfTheirProtocol(t *testing.T) {
	for _, c := range []struct {
		add        func(*Reply)
		two, three string
	}{
		{func(r *Reply) { r.Simple("OK") }, "+OK\r\n", "+OK\r\n"},
		{func(r *Reply) { r.Error("ERR a\r\nb") }, "-ERR a  b\r\n", "-ERR a  b\r\n"},
		{func(r *Reply) { r.Int(-5) }, ":-5\r\n", ":-5\r\n"},
		{func(r *Reply) { r.Bool(true); r.Bool(false) }, ":1\r\n:0\r\n", ":1\r\n:0\r\n"},
		{func(r *Reply) { r.Bulk([]byte("a\x00")); r.Text("") }, "$2\r\na\x00\r\n$0\r\n\r\n", "$2\r\na\x00\r\n$0\r\n\r\n"},
		{func(r *Reply) { r.Verbatim("x") }, "$1\r\nx\r\n", "=5\r\ntxt:x\r\n"},
		{func(r *Reply) { r.Null() }, "$-1\r\n", "_\r\n"},
		{func(r *Reply) { r.NullArray() }, "*-1\r\n", "_\r\n"},
		{func(r *Reply) { r.Array(2) }, "*2\r\n", "*2\r\n"},
		{func(r *Reply) { r.Map(2) }, "*4\r\n", "%2\r\n"},
		{func(r *Reply) { r.Push(3) }, "*3\r\n", ">3\r\n"},
	} {
		var two, three Reply
		three.three = true
		c.add(&two)
		c.add(&three)
		if string(two.buf) != c.two || string(three.buf) != c.three {
			t.Errorf("got %q and %q, want %q and %q", two.buf, three.buf, c.two, c.three)
		}
	}
}
