package sluice

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// A small client of the Redis protocol (RESP2, https://redis.io/docs/latest/develop/reference/protocol-spec):
// commands as text, replies as flat lists.
//
// Why none of the existing ones: the interpreter loads neither. redigo 1.7 to 1.9 stop at a method value (conn.go:
// "cannot use type func(*net.Dialer, ...)"), go-redis needs package unsafe, which Traefik's interpreter does not
// have; and either would be the plugin's only dependency. What a limiter needs of the protocol is this file.
//
// A server is not trusted to be one. Every length is checked before anything is allocated for it, a whole exchange
// has one deadline that no trickle of bytes extends, and a reply's depth costs nothing because nesting is not
// followed: see element.

const (
	// maxLine bounds a line of a reply: a simple string, an error or a number. It is the reader's buffer.
	maxLine = 4096
	// maxElements and maxBytes bound all replies of one exchange together.
	maxElements = 1 << 16
	maxBytes    = 1 << 20
)

// The kinds of element: the protocol's own first bytes, and one for its two ways to write null.
const (
	statusReply = '+'
	errorReply  = '-'
	numberReply = ':'
	stringReply = '$'
	arrayReply  = '*'
	nullReply   = '_'
	nullLength  = -1
)

// element is one value of a reply. An array is followed by its elements, arrays in it by theirs: an exchange's
// replies are one flat list in the order of the bytes, whatever is nested in what.
type element struct {
	kind   byte
	number int64  // of a numberReply; of an arrayReply how many elements it has
	text   string // of a statusReply, errorReply or stringReply
}

// respConn is one connection to a server. One goroutine at a time uses it, and after any error it is only fit to be
// closed: what the server still sends would be taken for the answer to something else.
type respConn struct {
	net     net.Conn
	reader  *bufio.Reader
	replies []element // of the last exchange, in the order of its commands
	bytes   int64     // read in this exchange

	renewAt int64 // from when on askLine sets another deadline

	address    string
	generation int // of the pool that it belongs to
}

// errNotRedis is the answer of something that is no Redis server, or a broken one.
var errNotRedis = errors.New("the answer is not in the Redis protocol")

// errTooLong is an answer longer than anything that is asked for here.
var errTooLong = errors.New("the answer is too long")

// command encodes commands' words as servers read them: a list of strings, each after its length.
func command(words ...string) string {
	return "*" + strconv.Itoa(len(words)) + "\r\n" + arguments(words...)
}

// arguments encodes some of a command's words, which follow others.
func arguments(words ...string) string {
	var encoded strings.Builder
	for _, word := range words {
		encoded.WriteString("$")
		encoded.WriteString(strconv.Itoa(len(word)))
		encoded.WriteString("\r\n")
		encoded.WriteString(word)
		encoded.WriteString("\r\n")
	}
	return encoded.String()
}

// ask sends encoded commands, all at once, and reads as many replies into c.replies. deadline, on the plugin's clock,
// is for the whole of it. The error says that the connection failed; an error that the server answered is an element
// like any other.
func ask(c *respConn, commands string, replies int, deadline int64) error {
	c.replies = c.replies[:0]
	c.bytes = 0
	c.renewAt = 0
	if err := c.net.SetDeadline(start.Add(time.Duration(deadline))); err != nil {
		return err
	}
	if _, err := io.WriteString(c.net, commands); err != nil {
		return err
	}
	for ; replies > 0; replies-- {
		if err := readReply(c); err != nil {
			return err
		}
	}
	return nil
}

// readReply reads one reply with all that is nested in it.
func readReply(c *respConn) error {
	for missing := int64(1); missing > 0; missing-- {
		e, err := readElement(c)
		if err != nil {
			return err
		}
		if e.kind == arrayReply {
			missing += e.number
		}
		if int64(len(c.replies))+missing > maxElements {
			return errTooLong
		}
		c.replies = append(c.replies, e)
	}
	return nil
}

// readElement reads one element without those inside it.
func readElement(c *respConn) (element, error) {
	line, err := c.reader.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return element{}, errTooLong
	}
	if err != nil {
		return element{}, err
	}
	c.bytes += int64(len(line))
	if c.bytes > maxBytes {
		return element{}, errTooLong
	}
	end := len(line) - 2
	if end < 1 || line[end] != '\r' {
		return element{}, errNotRedis
	}
	kind, text := line[0], string(line[1:end])
	if kind == statusReply || kind == errorReply {
		return element{kind: kind, text: text}, nil
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return element{}, errNotRedis
	}
	if kind == numberReply {
		return element{kind: kind, number: number}, nil
	}
	return readLong(c, kind, number)
}

// readLong reads what follows the length of a string; of an array that is nothing yet.
func readLong(c *respConn, kind byte, length int64) (element, error) {
	switch {
	case kind != stringReply && kind != arrayReply:
		return element{}, errNotRedis
	case length == nullLength:
		return element{kind: nullReply}, nil
	case length < 0:
		return element{}, errNotRedis
	case length > maxBytes-c.bytes:
		return element{}, errTooLong
	case kind == arrayReply:
		return element{kind: kind, number: length}, nil
	}
	c.bytes += length
	text := make([]byte, length+2)
	if _, err := io.ReadFull(c.reader, text); err != nil {
		return element{}, err
	}
	if text[length] != '\r' || text[length+1] != '\n' {
		return element{}, errNotRedis
	}
	return element{kind: kind, text: string(text[:length])}, nil
}

// dial connects to a server, until deadline on the plugin's clock. secure is nil for plain TCP.
func dial(address string, secure *tls.Config, deadline int64) (*respConn, error) {
	left := time.Duration(deadline) - time.Since(start)
	if left <= 0 {
		left = 1 // 0 would mean no limit
	}
	plain, err := net.DialTimeout("tcp", address, left)
	if err != nil {
		return nil, err
	}
	if secure == nil {
		return newConn(plain, address), nil
	}
	named := secure.Clone()
	named.ServerName, _, _ = net.SplitHostPort(address)
	wrapped := tls.Client(plain, named)
	err = wrapped.SetDeadline(start.Add(time.Duration(deadline)))
	if err == nil {
		err = wrapped.Handshake()
	}
	if err != nil {
		_ = plain.Close()
		return nil, err
	}
	return newConn(wrapped, address), nil
}

func newConn(connection net.Conn, address string) *respConn {
	return &respConn{net: connection, reader: bufio.NewReaderSize(connection, maxLine), address: address}
}

// greet makes a new connection ready: it says who we are, chooses the database, and proves that this server does what
// will be asked of it by writing probe, a key that expires at once. A replica, a node of a cluster that has other
// keys, a server that is still loading or out of memory all say so now. The error is the connection's, or the
// server's own words.
func greet(c *respConn, username, password, db, probe string, deadline int64) error {
	commands, replies := "", 0
	switch {
	case username != "":
		commands = command("AUTH", username, password)
		replies = 1
	case password != "":
		commands = command("AUTH", password)
		replies = 1
	}
	if db != "" && db != "0" {
		commands += command("SELECT", db)
		replies++
	}
	commands += command("SET", probe, "1", "PX", "1")
	replies++
	if err := ask(c, commands, replies, deadline); err != nil {
		return err
	}
	for _, e := range c.replies {
		if e.kind == errorReply {
			return errors.New(e.text)
		}
		if e.kind != statusReply {
			return errNotRedis
		}
	}
	return nil
}

// movedTo is the address in a cluster node's answer "MOVED slot host:port", "" in any other. Without a host it is
// that of the node that answered.
func movedTo(answer, asked string) string {
	words := strings.Fields(answer)
	if len(words) != 3 || words[0] != "MOVED" {
		return ""
	}
	host, port, err := net.SplitHostPort(words[2])
	if err != nil || port == "" {
		return ""
	}
	if host == "" {
		host, _, _ = net.SplitHostPort(asked)
	}
	return net.JoinHostPort(host, port)
}
