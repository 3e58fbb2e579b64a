package sluice

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// in is a moment on the plugin's clock.
func in(d time.Duration) int64 { return int64(time.Since(start) + d) }

// pieces writes a reply to the other end of a connection in the given pieces, a moment apart, and closes it if told
// so.
func pieces(t *testing.T, closes bool, reply ...string) *respConn {
	t.Helper()
	client, server := net.Pipe()
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	go func() {
		_, _ = server.Read(make([]byte, 1024)) // the command
		go func() { _, _ = io.Copy(io.Discard, server) }()
		for _, piece := range reply {
			if _, err := io.WriteString(server, piece); err != nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
		if closes {
			_ = server.Close()
		}
	}()
	return newConn(client, "server")
}

func TestReplies(t *testing.T) {
	for name, test := range map[string]struct {
		reply string
		count int
		want  []element
	}{
		"status":        {"+OK\r\n", 1, []element{{kind: '+', text: "OK"}}},
		"empty status":  {"+\r\n", 1, []element{{kind: '+'}}},
		"error":         {"-NOSCRIPT No matching script.\r\n", 1, []element{{kind: '-', text: "NOSCRIPT No matching script."}}},
		"number":        {":-42\r\n", 1, []element{{kind: ':', number: -42}}},
		"string":        {"$5\r\na\r\nbc\r\n", 1, []element{{kind: '$', text: "a\r\nbc"}}},
		"empty string":  {"$0\r\n\r\n", 1, []element{{kind: '$'}}},
		"null string":   {"$-1\r\n", 1, []element{{kind: '_'}}},
		"null array":    {"*-1\r\n", 1, []element{{kind: '_'}}},
		"empty array":   {"*0\r\n", 1, []element{{kind: '*'}}},
		"nested arrays": {"*2\r\n*1\r\n:1\r\n+x\r\n", 1, []element{{kind: '*', number: 2}, {kind: '*', number: 1}, {kind: ':', number: 1}, {kind: '+', text: "x"}}},
		"a pipeline":    {":1\r\n*1\r\n-ERR\r\n+x\r\n", 3, []element{{kind: ':', number: 1}, {kind: '*', number: 1}, {kind: '-', text: "ERR"}, {kind: '+', text: "x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, parts := range [][]string{{test.reply}, strings.Split(test.reply, "")} {
				c := pieces(t, false, parts...)
				if err := ask(c, command("PING"), test.count, in(time.Second)); err != nil {
					t.Fatal(err)
				}
				if len(c.replies) != len(test.want) {
					t.Fatalf("got %v, want %v", c.replies, test.want)
				}
				for i := range test.want {
					if c.replies[i] != test.want[i] {
						t.Errorf("element %d: got %v, want %v", i, c.replies[i], test.want[i])
					}
				}
			}
		})
	}
}

func TestRepliesThatAreNone(t *testing.T) {
	for name, test := range map[string]struct {
		reply string
		want  error
	}{
		"another protocol":         {"HTTP/1.1 400 Bad Request\r\n", errNotRedis},
		"no carriage return":       {"+OK\n", errNotRedis},
		"an empty line":            {"\r\n", errNotRedis},
		"a bare line feed":         {"\n", errNotRedis},
		"a number that is none":    {":4x\r\n", errNotRedis},
		"a number beyond 64 bits":  {":9223372036854775808\r\n", errNotRedis},
		"a length that is none":    {"$x\r\n", errNotRedis},
		"a negative length":        {"$-2\r\n", errNotRedis},
		"a string not ended":       {"$1\r\nabc\r\n", errNotRedis},
		"a negative count":         {"*-5\r\n", errNotRedis},
		"a type of RESP3":          {"%1\r\n+a\r\n+b\r\n", errNotRedis},
		"a giant string":           {"$9223372036854775807\r\nx", errTooLong},
		"a large string":           {"$1048577\r\nx", errTooLong},
		"a giant array":            {"*9223372036854775807\r\n", errTooLong},
		"an array beyond bounds":   {"*65537\r\n", errTooLong},
		"arrays without end":       {strings.Repeat("*1\r\n", maxElements+1), errTooLong},
		"arrays that grow":         {strings.Repeat("*60000\r\n", 2), errTooLong},
		"a line without end":       {"+" + strings.Repeat("x", maxLine), errTooLong},
		"strings without end":      {"*60000\r\n" + strings.Repeat("$100000\r\n"+strings.Repeat("x", 100000)+"\r\n", 11), errTooLong},
		"closed before the reply":  {"", io.EOF},
		"closed within a line":     {":1", io.EOF},
		"closed before the string": {"$3\r\n", io.EOF},
		"closed within a string":   {"$3\r\nab", io.ErrUnexpectedEOF},
		"closed within an array":   {"*2\r\n:1\r\n", io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			c := pieces(t, true, test.reply)
			if err := ask(c, command("PING"), 1, in(5*time.Second)); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

// A reply that trickles in does not extend the deadline, nor does a server that reads nothing.
func TestDeadline(t *testing.T) {
	t.Run("slow reply", func(t *testing.T) {
		c := pieces(t, false, strings.Split("$200\r\n"+strings.Repeat("x", 200)+"\r\n", "")...)
		before := time.Now()
		err := ask(c, command("PING"), 1, in(50*time.Millisecond))
		if took := time.Since(before); !os.IsTimeout(err) || took > 150*time.Millisecond {
			t.Errorf("got %v after %v", err, took)
		}
	})
	t.Run("deaf server", func(t *testing.T) {
		client, server := net.Pipe()
		defer func() { _ = client.Close() }()
		defer func() { _ = server.Close() }()
		if err := ask(newConn(client, ""), command("PING"), 1, in(20*time.Millisecond)); !os.IsTimeout(err) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no time left", func(t *testing.T) {
		if err := ask(pieces(t, false, "+OK\r\n"), command("PING"), 1, in(-time.Second)); !os.IsTimeout(err) {
			t.Errorf("got %v", err)
		}
	})
}

func TestCommand(t *testing.T) {
	if got, want := command("SET", "k\r\n", ""), "*3\r\n$3\r\nSET\r\n$3\r\nk\r\n\r\n$0\r\n\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestGreet(t *testing.T) {
	for name, test := range map[string]struct {
		username, password, db string
		reply, want            string
	}{
		"nothing asked": {"", "", "", "+OK\r\n", ""},
		"all asked":     {"me", "secret", "3", "+OK\r\n+OK\r\n+OK\r\n", ""},
		"database 0":    {"", "secret", "0", "+OK\r\n+OK\r\n", ""},
		"wrong password": {"", "x", "", "-WRONGPASS invalid username-password pair or user is disabled.\r\n-NOAUTH Authentication required.\r\n",
			"WRONGPASS invalid username-password pair or user is disabled."},
		"no such database": {"", "", "99", "-ERR DB index is out of range\r\n+OK\r\n", "ERR DB index is out of range"},
		"a replica":        {"", "", "", "-READONLY You can't write against a read only replica.\r\n", "READONLY You can't write against a read only replica."},
		"nonsense":         {"", "", "", ":1\r\n", errNotRedis.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			c := pieces(t, false, test.reply)
			err := greet(c, test.username, test.password, test.db, "probe", in(time.Second))
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestMovedTo(t *testing.T) {
	for answer, want := range map[string]string{
		"MOVED 3999 127.0.0.1:6381":   "127.0.0.1:6381",
		"MOVED 3999 [::1]:6381":       "[::1]:6381",
		"MOVED 3999 :6381":            "asked:6381",
		"MOVED 3999":                  "",
		"MOVED 3999 nonsense":         "",
		"MOVED 3999 host:":            "",
		"ASK 3999 127.0.0.1:6381":     "",
		"READONLY You can't write":    "",
		"MOVED 3999 host:1 and more ": "",
		"":                            "",
	} {
		if got := movedTo(answer, "asked:6379"); got != want {
			t.Errorf("%q: got %q, want %q", answer, got, want)
		}
	}
}

// Whatever a server sends, reading it ends, stays within bounds, and what was read means what was sent.
func FuzzReply(f *testing.F) {
	for _, seed := range []string{"+OK\r\n", "-ERR x\r\n", ":12\r\n", "$3\r\nabc\r\n", "$-1\r\n", "*2\r\n:1\r\n*1\r\n$0\r\n\r\n",
		"*-1\r\n", "$99999999999\r\n", "*99999\r\n", strings.Repeat("*1\r\n", 100)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		c := newConn(&readOnly{Reader: bytes.NewReader(sent)}, "")
		if err := ask(c, "", 1, in(time.Second)); err != nil {
			return
		}
		if len(c.replies) > maxElements || c.bytes > maxBytes {
			t.Fatalf("%d elements, %d bytes", len(c.replies), c.bytes)
		}
		again := newConn(&readOnly{Reader: strings.NewReader(encode(c.replies))}, "")
		if err := ask(again, "", 1, in(time.Second)); err != nil {
			t.Fatalf("%q read as %v, which reads as %v", sent, c.replies, err)
		}
		for i, e := range c.replies {
			if again.replies[i] != e {
				t.Fatalf("element %d: %v and %v", i, e, again.replies[i])
			}
		}
	})
}

// encode writes elements as a server does.
func encode(elements []element) string {
	var encoded strings.Builder
	for _, e := range elements {
		switch e.kind {
		case nullReply:
			encoded.WriteString("$-1\r\n")
		case stringReply:
			encoded.WriteString("$" + strconv.Itoa(len(e.text)) + "\r\n" + e.text + "\r\n")
		case numberReply, arrayReply:
			encoded.WriteString(string(rune(e.kind)) + strconv.FormatInt(e.number, 10) + "\r\n")
		default:
			encoded.WriteString(string(rune(e.kind)) + e.text + "\r\n")
		}
	}
	return encoded.String()
}

// readOnly is a connection that answers whatever is asked from a reader.
type readOnly struct {
	net.Conn
	io.Reader
}

func (r *readOnly) Read(p []byte) (int, error)  { return r.Reader.Read(p) }
func (r *readOnly) Write(p []byte) (int, error) { return len(p), nil }
func (r *readOnly) SetDeadline(time.Time) error { return nil }
